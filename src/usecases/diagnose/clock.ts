import type { Clock } from '../../domain/clock.ts';
import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import type { GuardedFetch } from '../../net/guarded-fetch.ts';

/** A `Date` header tells whole seconds. */
const DATE_RESOLUTION_MS = 1_000;

/** Within it nobody notices anything. */
const GOOD_WITHIN_MS = 3_000;

/** Signatures are good for a minute either way (NIP-98), and the clocks of wallets are not perfect either. */
const BAD_FROM_MS = 15_000;

/** What somebody said the time was, in milliseconds since 1970, and when here it was asked and heard. */
export interface ToldTime {
  /** Who said it. */
  teller: string;
  saidMs: number;
  resolutionMs: number;
  askedAtMs: number;
  heardAtMs: number;
}

/** Collects what others say the time is, while they are asked about other things. */
export class ToldTimes {
  readonly #told = new Map<string, ToldTime>();

  /** @param date the header of an answer; anything that is no date is passed over */
  take(teller: string, date: string | null, askedAtMs: number, heardAtMs: number): void {
    const saidMs = Date.parse(date ?? '');
    if (!Number.isNaN(saidMs)) {
      const resolutionMs = DATE_RESOLUTION_MS;
      this.#told.set(teller, { teller, saidMs, resolutionMs, askedAtMs, heardAtMs });
    }
  }

  /** From each the last. */
  get all(): ToldTime[] {
    return [...this.#told.values()];
  }
}

/** The same requests, each of whose answers tells the time. */
export function hearingTimes(
  fetch: Pick<GuardedFetch, 'request'>,
  times: ToldTimes,
  clock: Clock,
): Pick<GuardedFetch, 'request'> {
  return {
    request: async (request) => {
      const askedAtMs = clock();
      const answer = await fetch.request(request);
      if (answer.outcome === 'answered') {
        // What a cache has kept for a while tells when that began.
        const date = answer.headers.has('age') ? null : (answer.headers.get('date') ?? null);
        times.take(new URL(request.url).host, date, askedAtMs, clock());
      }
      return answer;
    },
  };
}

/**
 * Compares this machine's clock with what it was told.
 *
 * @param database the database's own clock; null where it has none, or was not reached
 * @param strangers anybody may be wrong: the one in the middle counts
 */
export function checkClock(database: ToldTime | null, strangers: readonly ToldTime[]): Finding[] {
  return [...(database === null ? [] : [beside(database)]), besideStrangers(strangers)];
}

/**
 * How far this machine's clock is ahead, in milliseconds; 0 where what was told can be right, given how
 * long the answer took and how exactly it tells.
 */
export function aheadMs({ saidMs, resolutionMs, askedAtMs, heardAtMs }: ToldTime): number {
  const most = heardAtMs - saidMs;
  const least = askedAtMs - saidMs - resolutionMs;
  return least > 0 ? least : Math.min(most, 0);
}

function beside(database: ToldTime): Finding {
  const ahead = aheadMs(database);
  return Math.abs(ahead) < GOOD_WITHIN_MS
    ? ok('clock.database', 'The database’s clock is this machine’s')
    : problem(
        'clock.database',
        `This machine’s clock is ${distance(ahead)} the database’s`,
        'Have both set by NTP (`timedatectl set-ntp true`).',
      );
}

function besideStrangers(strangers: readonly ToldTime[]): Finding {
  const offsets = strangers.map(aheadMs).sort((one, other) => one - other);
  const middle = offsets[Math.floor(offsets.length / 2)];
  if (middle === undefined) {
    return note(
      'clock.unknown',
      'Nobody told the time: whether this machine’s clock is right is not known',
    );
  }
  const whose = strangers.length === 1 ? strangers[0]?.teller : `${strangers.length} others`;
  if (Math.abs(middle) < GOOD_WITHIN_MS) {
    return ok('clock.right', `This machine’s clock is that of ${whose}`);
  }
  const say = Math.abs(middle) < BAD_FROM_MS ? warning : problem;
  return say(
    'clock.wrong',
    `This machine’s clock is ${distance(middle)} that of ${whose}: signatures of wallets are refused, and invoices end early or late`,
    'Have it set by NTP (`timedatectl set-ntp true`).',
  );
}

function distance(ahead: number): string {
  return `${Math.round(Math.abs(ahead) / 1000)} s ${ahead > 0 ? 'ahead of' : 'behind'}`;
}
