import type { GuardedFetch } from '../../net/guarded-fetch.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

/** Compares this machine's clock with that of another machine. Yields nothing without a valid Date header from it. */
export function* checkClockSkew(
  remoteName: string,
  dateHeader: string | undefined,
  { sentAtMs, receivedAtMs }: { sentAtMs: number; receivedAtMs: number },
): Generator<Finding> {
  const remoteMs = Date.parse(dateHeader ?? '');
  if (Number.isNaN(remoteMs)) {
    return;
  }
  // The other machine wrote the header between the request and the response, and rounded it down to a second. So the
  // skew is only known to be in this range. The finding is about the smallest one, 0 if the clocks may agree.
  const minSkewMs = sentAtMs - remoteMs - 1_000;
  const maxSkewMs = receivedAtMs - remoteMs;
  const skewMs = minSkewMs > 0 ? minSkewMs : Math.min(maxSkewMs, 0);
  const absoluteSkewMs = Math.abs(skewMs);
  if (absoluteSkewMs < 3_000) {
    yield ok('clock.time', `This machine’s clock agrees with that of ${remoteName}`);
    return;
  }
  // Signatures are valid for a minute before and after their time (NIP-98), and wallets' clocks are inexact too.
  const createFinding = absoluteSkewMs < 15_000 ? warning : problem;
  const skewText = `${Math.round(absoluteSkewMs / 1_000)} s ${skewMs > 0 ? 'ahead of' : 'behind'}`;
  yield createFinding(
    'clock.time',
    `This machine’s clock is ${skewText} that of ${remoteName}: signatures may be rejected, and invoices may expire early or late`,
    'Synchronise the clock by NTP (`timedatectl set-ntp true`). If it differs from only one other machine, the clock of that machine is wrong.',
  );
}

/** Wraps `fetch` so that each response also checks the clock, and adds what that finds to `findings`. */
export function withClockCheck(
  fetch: GuardedFetch,
  findings: Finding[],
): Pick<GuardedFetch, 'request'> {
  return {
    request: async (request) => {
      const sentAtMs = Date.now();
      const response = await fetch.request(request);
      // A cached response has the date at which it was cached.
      if (response.outcome === 'responded' && !response.headers.has('age')) {
        const times = { sentAtMs, receivedAtMs: Date.now() };
        const { host } = new URL(request.url);
        findings.push(...checkClockSkew(host, response.headers.get('date'), times));
      }
      return response;
    },
  };
}
