import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import { remoteParty } from '../net/remote-party.ts';
import type { DueRelay } from '../store/receipt-delivery-store.ts';
import type { Store } from '../store/store.ts';
import type { DeliverZapReceipts } from '../usecases/deliver-zap-receipts.ts';
import { Background } from './background.ts';
import { givePlaces, type Place } from './receipt-places.ts';

/** How often the database is asked which relays receipts are due for, and no more often. */
const LOOK_INTERVAL_MS = 1_000;

/** Receipts that are made at one moment are looked for together, and turns that end at one moment. */
const GATHER_MS = 50;

/**
 * So many relays are looked at in one go, in some milliseconds, and the next time those behind them:
 * strangers may name any number of relays that were never there.
 */
const LOOK_AT = 5_000;

/**
 * A relay that nothing is due for stays this process's for a while: as long as the connection may be
 * there, the next receipt is to go through it and not through one of another process.
 */
const LINGER_MS = 60_000;

/** How often receipts are given up that no relay took for too long, and wrong plans are put right. */
const TIDY_INTERVAL_MS = 60_000;

/** The clock was set back where it is so much behind the last look: less is an ordinary correction. */
const SET_BACK_MS = 2_000;

/** What {@link ReceiptCourier} needs; `service.ts` constructs it. */
export interface ReceiptCourierParts {
  deliveries: Store['deliveries'];
  deliver: DeliverZapReceipts;
  /** Under which this process counts as alive, and has relays. */
  processId: string;
  /** The operator's, normalised. */
  ownRelays: readonly string[];
  /** Development. */
  allowPrivateNetworks: boolean;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}

/**
 * Brings zap receipts to relays: one turn at a time for each, many relays side by side, so that a slow
 * one delays no other. What is due is read from the database; that something is, is told as well.
 */
export class ReceiptCourier {
  readonly #parts: ReceiptCourierParts;
  readonly #own: ReadonlySet<string>;
  readonly #scan: Background;
  readonly #tidying: Background;
  readonly #stopping = new AbortController();
  /** Turns that are under way, by the relay's url. */
  readonly #turns = new Map<string, Place & { ended: Promise<void> }>();
  /** Relays that were due at a look and had no place yet, by url. */
  readonly #waiting = new Map<string, DueRelay>();
  /** Relays that something may be due for since a moment ago. */
  readonly #noticed = new Set<string>();
  /** Relays that this process has and does not send to, with the monotonic time of their last turn. */
  readonly #idle = new Map<string, number>();
  #nextLook: NodeJS.Timeout | null = null;
  #isLooking = false;
  /** Whether the round that begins is for what was noticed. */
  #isHurried = false;
  #lastFullLookMs = Number.NEGATIVE_INFINITY;
  /** Relays up to this url were looked at in this round. */
  #lookedUpTo = '';
  #lastLookAtMs = 0;
  /** Whether the database could not be read the last time. */
  #isBlind = false;
  /** Whether the last turn that ended broke off: one line tells of it, and not one for each. */
  #isFailing = false;

  constructor(parts: ReceiptCourierParts) {
    this.#parts = parts;
    this.#own = new Set(parts.ownRelays);
    this.#scan = new Background({
      work: () => this.#look(),
      intervalMs: LOOK_INTERVAL_MS,
      onError: (error) => this.#loseSight(error),
    });
    this.#tidying = new Background({
      work: (signal) => this.#tidy(signal),
      intervalMs: TIDY_INTERVAL_MS,
      onError: (error) =>
        parts.log.warn({ err: error }, 'old zap receipts were not looked at; they will be'),
    });
  }

  /** Begins, with all that an earlier run left open. */
  start(): void {
    this.#scan.start();
    this.#tidying.start();
  }

  /** Looks at these relays at once and before all others, as receipts for them were made here. */
  notice(relays: readonly string[]): void {
    if (this.#stopping.signal.aborted) {
      return;
    }
    for (const url of relays) {
      this.#noticed.add(url);
    }
    this.#nextLook ??= setTimeout(() => this.#lookNow(), GATHER_MS);
  }

  /**
   * Ends the turns within a second, however dead a relay is; resolves when all that was answered is
   * written, and other processes may take the relays.
   */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#nextLook ?? undefined);
    await Promise.all([this.#scan.stop(), this.#tidying.stop()]);
    await Promise.all([...this.#turns.values()].map(({ ended }) => ended));
    // Without the database they come free as this process ceases to count as alive.
    await this.#parts.deliveries.releaseAll(this.#parts.processId).catch(() => undefined);
  }

  /** A look that is under way may have read before the receipts were there. */
  #lookNow(): void {
    this.#nextLook = null;
    if (this.#isLooking) {
      this.notice([]);
    } else {
      this.#isHurried = true;
      void this.#scan.run();
    }
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    try {
      this.#mindTheClock();
      await this.#lookAtNoticed();
      await this.#beginTurns();
      if (this.#isTimeForAll()) {
        await this.#lookAtAll();
        await this.#beginTurns();
      }
      await this.#releaseIdle();
      this.#regainSight();
    } finally {
      this.#isLooking = false;
      this.#isHurried = false;
    }
  }

  /** A clock that was set back would put off all that was planned by it. */
  #mindTheClock(): void {
    const nowMs = this.#parts.clock();
    if (nowMs < this.#lastLookAtMs - SET_BACK_MS) {
      void this.#tidying.run();
    }
    this.#lastLookAtMs = nowMs;
  }

  async #tidy(signal: AbortSignal): Promise<void> {
    const { deliver } = this.#parts;
    await deliver.pullInFromFuture(signal);
    await deliver.giveUpOverdue(signal);
  }

  #isTimeForAll(): boolean {
    const nowMs = this.#parts.monotonicMs();
    const isTime = !this.#isHurried || nowMs - this.#lastFullLookMs >= LOOK_INTERVAL_MS;
    if (isTime) {
      this.#lastFullLookMs = nowMs;
    }
    return isTime;
  }

  async #lookAtAll(): Promise<void> {
    const { deliveries, processId, clock } = this.#parts;
    const { relays, next } = await deliveries.dueRelays(processId, clock(), {
      after: this.#lookedUpTo,
      lookAt: LOOK_AT,
    });
    this.#lookedUpTo = next ?? '';
    // Those that served wait on until they have a place: they are few. All others come round again.
    for (const { url, hasServed } of this.#waiting.values()) {
      if (!hasServed) {
        this.#waiting.delete(url);
      }
    }
    this.#addWaiting(relays);
    // Looked at next: other processes make receipts for the relays of this one, and cannot tell it.
    for (const url of this.#idle.keys()) {
      this.#noticed.add(url);
    }
  }

  async #lookAtNoticed(): Promise<void> {
    const { deliveries, processId, clock } = this.#parts;
    const urls = [...this.#noticed].slice(0, LOOK_AT);
    for (const url of urls) {
      this.#noticed.delete(url);
    }
    try {
      this.#addWaiting(await deliveries.dueAmong(processId, clock(), urls));
    } catch (error) {
      for (const url of urls) {
        this.#noticed.add(url);
      }
      throw error;
    }
  }

  #addWaiting(relays: readonly DueRelay[]): void {
    for (const relay of relays) {
      this.#waiting.set(relay.url, relay);
    }
  }

  async #beginTurns(): Promise<void> {
    const { deliveries, processId, allowPrivateNetworks, clock } = this.#parts;
    const placed = givePlaces([...this.#waiting.values()], this.#turns, {
      own: this.#own,
      partyOf: (url) => remoteParty(new URL(url), { allowPrivateNetworks }),
    });
    const urls = placed.map(({ relay }) => relay.url);
    const claimed = new Set(await deliveries.claim(processId, urls, clock()));
    for (const { relay, place } of placed) {
      // Where it was not to be had, another process has it, or found that it has to rest.
      this.#waiting.delete(relay.url);
      if (claimed.has(relay.url)) {
        this.#begin(relay, place);
      }
    }
  }

  #begin(relay: DueRelay, place: Place): void {
    this.#idle.delete(relay.url);
    const ended = this.#turn(relay).finally(() => {
      this.#turns.delete(relay.url);
      // It was read before the turn ended.
      this.#waiting.delete(relay.url);
    });
    this.#turns.set(relay.url, { ...place, ended });
  }

  async #turn(relay: DueRelay): Promise<void> {
    const { deliver, monotonicMs, log } = this.#parts;
    try {
      const isOwn = this.#own.has(relay.url);
      const outcome = await deliver.turn({ ...relay, isOwn }, this.#stopping.signal);
      this.#isFailing = false;
      if (outcome !== 'resting') {
        this.#idle.set(relay.url, monotonicMs());
      }
      if (outcome !== 'idle') {
        // Its place is free, and what was made for it as it ended was not seen.
        this.notice([relay.url]);
      }
    } catch (error) {
      this.#idle.set(relay.url, monotonicMs());
      const level = this.#isFailing ? 'debug' : 'error';
      this.#isFailing = true;
      log[level]({ err: error }, 'sending zap receipts broke off; they stay due');
    }
  }

  async #releaseIdle(): Promise<void> {
    const { deliveries, processId, monotonicMs } = this.#parts;
    const nowMs = monotonicMs();
    const urls = [...this.#idle]
      .filter(([, sinceMs]) => nowMs - sinceMs > LINGER_MS)
      .map(([url]) => url);
    await deliveries.release(processId, urls);
    for (const url of urls) {
      this.#idle.delete(url);
    }
  }

  #loseSight(error: unknown): void {
    if (!this.#isBlind) {
      this.#isBlind = true;
      this.#parts.log.error(
        { err: error },
        'zap receipts wait: the database cannot be read; it is tried again',
      );
    }
  }

  #regainSight(): void {
    if (this.#isBlind) {
      this.#isBlind = false;
      this.#parts.log.info('the database is read again: zap receipts are sent');
    }
  }
}
