import type { Clock } from '../../clock.ts';
import type { GuardedFetch } from '../../net/guarded-fetch.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

/** A `Date` header has whole seconds. */
const DATE_RESOLUTION_MS = 1_000;

/** A smaller difference has no consequences. */
const GOOD_WITHIN_MS = 3_000;

/** Signatures are valid for one minute either way (NIP-98), and the clocks of wallets are not exact either. */
const BAD_FROM_MS = 15_000;

/**
 * Compares this machine's clock with that of another machine.
 *
 * @param source names the other machine
 * @param date its clock, as in a `Date` header
 * @param times our clock (milliseconds since 1970) before the request and after the answer
 * @returns no finding if there is no usable date
 */
export function checkClock(
  source: string,
  date: string | undefined,
  { sentAtMs, receivedAtMs }: { sentAtMs: number; receivedAtMs: number },
): Finding[] {
  const remoteMs = Date.parse(date ?? '');
  if (Number.isNaN(remoteMs)) {
    return [];
  }
  // The date was written at some moment between the two times, and rounded down.
  const leastAheadMs = sentAtMs - remoteMs - DATE_RESOLUTION_MS;
  const mostAheadMs = receivedAtMs - remoteMs;
  const aheadMs = leastAheadMs > 0 ? leastAheadMs : Math.min(mostAheadMs, 0);
  return [judge(source, aheadMs)];
}

function judge(source: string, aheadMs: number): Finding {
  const differenceMs = Math.abs(aheadMs);
  if (differenceMs < GOOD_WITHIN_MS) {
    return ok('clock.time', `This machine’s clock agrees with that of ${source}`);
  }
  const level = differenceMs < BAD_FROM_MS ? warning : problem;
  return level(
    'clock.time',
    `This machine’s clock is ${Math.round(differenceMs / 1_000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of ${source}: signatures may be rejected, and invoices expire early or late`,
    'Synchronise the clock by NTP (`timedatectl set-ntp true`). If it differs from this one machine only, that one is wrong.',
  );
}

/** Wraps requests so that the clock of each host that answers is checked, and the result added to `findings`. */
export function checkingClocks(
  fetch: Pick<GuardedFetch, 'request'>,
  findings: Finding[],
  clock: Clock,
): Pick<GuardedFetch, 'request'> {
  return {
    request: async (request) => {
      const sentAtMs = clock();
      const answer = await fetch.request(request);
      // The date of a cached answer is that of the cache entry.
      if (answer.outcome === 'answered' && !answer.headers.has('age')) {
        const times = { sentAtMs, receivedAtMs: clock() };
        findings.push(...checkClock(new URL(request.url).host, answer.headers.get('date'), times));
      }
      return answer;
    },
  };
}
