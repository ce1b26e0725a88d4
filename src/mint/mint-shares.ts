import { RecentlyUsed } from '../domain/recently-used.ts';
import { Bearing } from './bearing.ts';
import { Claimed, type ClaimedUntilNow, type KnownUse, NOTHING_CLAIMED } from './claimed.ts';
import { WINDOW_MS } from './learnt-limit.ts';
import { MAX_MINTS } from './request-budget.ts';
import type { RequestOutcome, RouteUse } from './route-budget.ts';

/**
 * Claimants at mints that are counted, of each of three kinds: some 25 MB in all. Each cost a mint an
 * invoice; whose last was the longest ago is forgotten first, and that is no flood.
 */
const MAX_CLAIMANTS = 20_000;

/** Whom an invoice is for, and who asks for it. */
export interface Payment {
  /** Any text that names the recipient, such as its pubkey. */
  recipient: string;
  /** Whom requests from the payer's address are counted for. */
  network: string;
}

/** A request that {@link MintShares.sent} counted. */
interface SharedRequest {
  readonly mintUrl: string;
  readonly claimed: readonly Claimed[];
  readonly sentAt: number;
}

/** What those had of a mint for whom a payment is counted. */
interface ClaimedByPayment {
  readonly recipient: ClaimedUntilNow;
  readonly network: ClaimedUntilNow;
  readonly pair: ClaimedUntilNow;
}

/**
 * How often a mint is asked for invoices, so that a flood leaves the mint to the others: a flood for
 * one recipient, of one network for whomever, and of one network for one recipient. Pure: `now` is
 * milliseconds since 1970.
 *
 * - Where the mint's ceiling is known, a recipient may have another invoice while what it had in the
 *   ceiling's window is less than what is left of the ceiling: one recipient gets half at most, two
 *   get a third each, and whoever had none finds room while there is any. The same holds for a
 *   network.
 * - Where none is known, a recipient has a number a minute, and more of what the mint was seen to
 *   bear. How much one network has of any mint is bounded where requests arrive.
 * - What one network has of a recipient's part is less than what it leaves of that part: half of it
 *   at most, or a third of a ceiling.
 *
 * Each process counts for itself: several together ask a mint for as many times more. The ceiling is
 * passed on to the process that watches the mint.
 *
 * Whoever asks looks at {@link waitMs}, tells {@link sent}, and then {@link record} or
 * {@link withdraw}.
 */
export class MintShares {
  readonly #perMinute: number;
  readonly #recipients = newClaimants();
  readonly #networks = newClaimants();
  readonly #pairs = newClaimants();
  readonly #bearings = new RecentlyUsed(MAX_MINTS, () => new Bearing());

  /**
   * @param perMinute invoices of one recipient at a mint whose limit is not known; 0: as many as are
   *   asked for. A ceiling that is known is shared all the same: the mint keeps it
   */
  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /**
   * Milliseconds until another invoice may be asked for, if nobody else asks for one; 0 is now.
   *
   * @param use how far the mint's route is used by all
   */
  waitMs(mintUrl: string, payment: Payment, use: RouteUse, now: number): number {
    const claimed = this.#claimed(mintUrl, payment, now);
    if (use.ceiling === null) {
      return waitInMinuteMs(now, (time) => this.#isOpenUnknown(mintUrl, claimed, time));
    }
    const known = { ...use, ceiling: use.ceiling };
    if (use.ceiling.window === 'sliding') {
      return waitInMinuteMs(now, (time) => isOpenKnown(known, claimed, time));
    }
    return isOpenKnown(known, claimed, now) ? 0 : Math.ceil(use.runEndsAt - now);
  }

  /** Counts a request that is sent to the mint now, or as soon as a connection is free. */
  sent(mintUrl: string, payment: Payment, use: RouteUse, now: number): SharedRequest {
    const keys = keysOf(mintUrl, payment);
    const claimed = [
      this.#recipients.use(keys.recipient),
      this.#networks.use(keys.network),
      this.#pairs.use(keys.pair),
    ];
    for (const each of claimed) {
      each.add(use, now);
    }
    return { mintUrl, claimed, sentAt: now };
  }

  /** Takes back a request that was counted, and that the mint never got. */
  withdraw({ claimed, sentAt }: SharedRequest): void {
    for (const each of claimed) {
      each.remove(sentAt);
    }
  }

  /** Tells what came of a request. */
  record({ mintUrl }: SharedRequest, outcome: RequestOutcome, now: number): void {
    this.#bearings.use(mintUrl).record(outcome, now);
  }

  #isOpenUnknown(mintUrl: string, { recipient, pair }: ClaimedByPayment, time: number): boolean {
    if (this.#perMinute === 0) {
      return true;
    }
    const borne = this.#bearings.look(mintUrl)?.perRecipient(time) ?? 0;
    const left = Math.max(this.#perMinute, borne) - recipient.inMinute(time);
    return left > 0 && pair.inMinute(time) < left;
  }

  #claimed(mintUrl: string, payment: Payment, now: number): ClaimedByPayment {
    const keys = keysOf(mintUrl, payment);
    const claimed = {
      recipient: this.#recipients.look(keys.recipient) ?? NOTHING_CLAIMED,
      network: this.#networks.look(keys.network) ?? NOTHING_CLAIMED,
      pair: this.#pairs.look(keys.pair) ?? NOTHING_CLAIMED,
    };
    for (const each of Object.values(claimed)) {
      each.noticeSetBack(now);
    }
    return claimed;
  }
}

function isOpenKnown(
  use: KnownUse,
  { recipient, network, pair }: ClaimedByPayment,
  time: number,
): boolean {
  const left = use.ceiling.perWindow - use.usedAt(time);
  const ofRecipient = recipient.inWindow(use, time);
  return (
    isWithin(ofRecipient, left) &&
    isWithin(network.inWindow(use, time), left) &&
    isWithin(pair.inWindow(use, time), left - ofRecipient)
  );
}

/** Whoever had none is refused by the mint's budget alone, where nothing is left. */
function isWithin(own: number, left: number): boolean {
  return own === 0 || own < left;
}

/**
 * Milliseconds until it is open, by halves: as what was had is over, it opens and stays open, and
 * after a minute all is over.
 */
function waitInMinuteMs(now: number, isOpenAt: (time: number) => boolean): number {
  if (isOpenAt(now)) {
    return 0;
  }
  let closedMs = 0;
  let openMs = WINDOW_MS;
  while (openMs - closedMs > 1) {
    const halfwayMs = Math.floor((closedMs + openMs) / 2);
    if (isOpenAt(now + halfwayMs)) {
      openMs = halfwayMs;
    } else {
      closedMs = halfwayMs;
    }
  }
  return openMs;
}

function newClaimants(): RecentlyUsed<Claimed> {
  return new RecentlyUsed(MAX_CLAIMANTS, () => new Claimed());
}

function keysOf(mintUrl: string, { recipient, network }: Payment) {
  return {
    recipient: `${recipient} ${mintUrl}`,
    network: `${network} ${mintUrl}`,
    pair: `${recipient} ${network} ${mintUrl}`,
  };
}
