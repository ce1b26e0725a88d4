import type { Clock } from '../../clock.ts';
import type { GuardedFetch } from '../../net/guarded-fetch.ts';
import { type Finding, FindingList } from './finding.ts';

/** A `Date` header has whole seconds. */
const DATE_HEADER_RESOLUTION_MS = 1_000;

/** Smaller differences do no harm. */
const MAX_OK_SKEW_MS = 3_000;

/** Signatures are valid for one minute either way (NIP-98), and the clocks of wallets are also inexact. */
const PROBLEM_SKEW_MS = 15_000;

/**
 * Compares this machine's clock with that of another machine.
 *
 * @param dateHeader the remote clock, as in a `Date` header
 * @param times our clock (milliseconds since 1970) before the request and after the response
 * @returns no finding if the header is missing or invalid
 */
export function checkClockSkew(
  remoteName: string,
  dateHeader: string | undefined,
  { sentAtMs, receivedAtMs }: { sentAtMs: number; receivedAtMs: number },
): Finding[] {
  const remoteMs = Date.parse(dateHeader ?? '');
  if (Number.isNaN(remoteMs)) {
    return [];
  }
  // The header was written between the two times and rounded down.
  const minSkewMs = sentAtMs - remoteMs - DATE_HEADER_RESOLUTION_MS;
  const maxSkewMs = receivedAtMs - remoteMs;
  const skewMs = minSkewMs > 0 ? minSkewMs : Math.min(maxSkewMs, 0);
  const absoluteSkewMs = Math.abs(skewMs);
  const list = new FindingList();
  if (absoluteSkewMs < MAX_OK_SKEW_MS) {
    list.ok('clock.time', `This machine’s clock agrees with that of ${remoteName}`);
  } else {
    list[absoluteSkewMs < PROBLEM_SKEW_MS ? 'warning' : 'problem'](
      'clock.time',
      `This machine’s clock is ${Math.round(absoluteSkewMs / 1_000)} s ${skewMs > 0 ? 'ahead of' : 'behind'} that of ${remoteName}: signatures may be rejected, and invoices may expire early or late`,
      'Synchronise the clock by NTP (`timedatectl set-ntp true`). If it differs from only one other machine, the clock of that machine is wrong.',
    );
  }
  return list.findings;
}

/** Wraps requests so that each response is used to check the clock. Adds the results to `findings`. */
export function withClockCheck(
  fetch: Pick<GuardedFetch, 'request'>,
  findings: Finding[],
  clock: Clock,
): Pick<GuardedFetch, 'request'> {
  return {
    request: async (request) => {
      const sentAtMs = clock();
      const response = await fetch.request(request);
      // The date of a cached response is that of the cache entry.
      if (response.outcome === 'responded' && !response.headers.has('age')) {
        const times = { sentAtMs, receivedAtMs: clock() };
        const { host } = new URL(request.url);
        findings.push(...checkClockSkew(host, response.headers.get('date'), times));
      }
      return response;
    },
  };
}
