import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import {
  afterTry,
  afterTurn,
  NO_ANSWER,
  type Reception,
  type RelayTrouble,
  SLOW_ANSWER_MS,
  type TurnEnd,
  type TurnResult,
} from '../domain/receipt-delivery.ts';
import { withoutQuery } from '../domain/relay-url.ts';
import type { Log } from '../log.ts';
import { lookAfter } from '../net/socket-message.ts';
import type { RelayPool } from '../relays/relay-pool.ts';
import type { DueReceipt, DueRelay, TriedReceipt } from '../store/receipt-delivery-store.ts';
import type { Store } from '../store/store.ts';
import { logMilestone } from './milestones.ts';

/** A relay that this process has, and has to send to. */
export type ClaimedRelay = Pick<DueRelay, 'url' | 'failures' | 'hasServed'> & {
  /** Whether the operator named it, and not a stranger. */
  isOwn: boolean;
};

/**
 * How a turn ended: nothing is due any more; its time was up, or it was told to stop; the relay rests.
 * `idle`: there was nothing to do, or it is another process's.
 */
export type TurnOutcome = 'idle' | 'drained' | 'interrupted' | 'resting';

/** What is read at once: memory stays flat with some 200 relays at a time, and a lot takes a few seconds. */
const LOT = { maxRows: 200, maxBytes: 512 * 1024 };

/** So many receipts are on their way to a relay at a time: a hundred milliseconds away, it is sent 300 a second. */
const WINDOW = 32;

/** After so long nothing more is sent, so that nobody waits for a relay that has much to take, or is slow. */
const TURN_MS = 20_000;

/** At the end, what was sent a moment ago may still be answered. What is not will be sent again. */
const LAST_ANSWERS_MS = 500;

/** Rows that are tidied up in one statement: it holds up nothing for more than a moment. */
const TIDY_LOT = 500;

/** Sends zap receipts to relays, and writes down what came of them. */
export class DeliverZapReceipts {
  readonly #deliveries: Store['deliveries'];
  readonly #relays: Pick<RelayPool, 'publish'>;
  readonly #processId: string;
  readonly #canAuthenticate: boolean;
  readonly #clock: Clock;
  readonly #monotonicMs: () => number;
  readonly #log: Log;

  /**
   * @param parts.processId under which this process has relays
   * @param parts.canAuthenticate whether there is a key with which the pool answers AUTH (NIP-42)
   * @param parts.monotonicMs a clock that never jumps
   */
  constructor(parts: {
    deliveries: Store['deliveries'];
    relays: Pick<RelayPool, 'publish'>;
    processId: string;
    canAuthenticate: boolean;
    clock: Clock;
    monotonicMs: () => number;
    log: Log;
  }) {
    this.#deliveries = parts.deliveries;
    this.#relays = parts.relays;
    this.#processId = parts.processId;
    this.#canAuthenticate = parts.canAuthenticate;
    this.#clock = parts.clock;
    this.#monotonicMs = parts.monotonicMs;
    this.#log = parts.log;
  }

  /**
   * Sends a relay what is due there, lot after lot; what came of a lot is written before the next.
   * Nothing more is sent after {@link TURN_MS}, nor once the relay fails, wants less or does not answer;
   * what is under way then still has the pool's time to be answered.
   *
   * @param signal ends it within a second; what was not answered by then stays due
   */
  async turn(relay: ClaimedRelay, signal: AbortSignal): Promise<TurnOutcome> {
    const endsAtMs = this.#monotonicMs() + TURN_MS;
    const isStrangers = !relay.hasServed && !relay.isOwn;
    const turn = new Turn(
      (isSlow) => signal.aborted || this.#monotonicMs() >= endsAtMs || (isSlow && isStrangers),
    );
    while (!turn.hasEnded) {
      const due = await this.#deliveries.listDue(this.#processId, relay.url, this.#clock(), LOT);
      if (due.length === 0) {
        break;
      }
      await this.#sendLot(relay.url, due, turn, signal);
    }
    return this.#end(relay, turn);
  }

  /** Leaves what a relay did not take for two days, also where nobody sends to it; until told to stop. */
  async giveUpOverdue(signal: AbortSignal): Promise<void> {
    const count = await inLots(signal, () =>
      this.#deliveries.giveUpOverdue(this.#clock(), TIDY_LOT),
    );
    if (count > 0) {
      this.#log.info({ deliveries: count }, 'zap receipts that relays did not take were given up');
    }
  }

  /** A clock that is ahead, here or in another process, puts off all that is planned by it. */
  async pullInFromFuture(signal: AbortSignal): Promise<void> {
    const count = await inLots(signal, () =>
      this.#deliveries.pullInFromFuture(this.#clock(), TIDY_LOT),
    );
    if (count > 0) {
      this.#log.warn({ deliveries: count }, 'zap receipts were planned by a clock that was ahead');
    }
  }

  async #sendLot(
    url: string,
    due: readonly DueReceipt[],
    turn: Turn,
    signal: AbortSignal,
  ): Promise<void> {
    const tried: (TriedReceipt & Pick<DueReceipt, 'paymentHash'>)[] = [];
    const sendOneByOne = async (receipts: Iterable<DueReceipt>) => {
      for (const receipt of receipts) {
        const reception = turn.hasEnded ? null : await this.#send(url, receipt, turn);
        if (reception === null) {
          return;
        }
        const step = afterTry(receipt.tries, reception, this.#clock(), {
          canAuthenticate: this.#canAuthenticate,
        });
        tried.push({ id: receipt.id, paymentHash: receipt.paymentHash, ...step });
      }
    };
    const sendAll = async () => {
      const fresh = due.filter(({ isSuspect }) => !isSuspect).values();
      await Promise.all(Array.from({ length: WINDOW }, () => sendOneByOne(fresh)));
      // What a relay hangs up at is to take nothing with it, the next time.
      await sendOneByOne(due.filter(({ isSuspect }) => isSuspect));
    };
    await orStopped(sendAll(), signal);
    // A copy: what is answered later than that is not waited for.
    const answered = [...tried];
    await this.#deliveries.record(url, answered, this.#clock());
    const relay = withoutQuery(url);
    for (const { id, paymentHash } of answered.filter(({ state }) => state === 'accepted')) {
      logMilestone(this.#log, 'receipt_delivered', paymentHash, { receipt: id, relay });
    }
    this.#log.debug({ relay, ...counted(answered) }, 'zap receipts were sent');
  }

  /** @returns null where it was not sent */
  async #send(url: string, receipt: DueReceipt, turn: Turn): Promise<Reception | null> {
    const answersBefore = turn.answers;
    let isLate = false;
    const lateness = lookAfter(SLOW_ANSWER_MS, () => {
      isLate = true;
    });
    const answer = await this.#relays.publish(url, { id: receipt.id, text: receipt.text });
    clearTimeout(lateness);
    switch (answer.outcome) {
      case 'unreachable':
        turn.endBy({ kind: 'unreachable', word: answer.reason });
        return null;
      case 'unanswered':
        // Where it answered all that was sent together with this, it is there and has no word for this.
        if (turn.answers - answersBefore < WINDOW) {
          const kind = receipt.isSuspect ? 'silent_at_suspect' : 'silent';
          turn.endBy({ kind, word: NO_ANSWER });
        }
        return answer;
      case 'refused':
        if (answer.refusal === 'rate_limited') {
          turn.endBy({ kind: 'rate_limited' });
        }
        break;
      case 'accepted':
        turn.acceptances += 1;
        break;
    }
    turn.answers += 1;
    turn.isSlow ||= isLate;
    return answer;
  }

  async #end(relay: ClaimedRelay, turn: Turn): Promise<TurnOutcome> {
    if (turn.trouble === null && turn.answers === 0) {
      return turn.hasEnded ? 'interrupted' : 'idle';
    }
    const nowMs = this.#clock();
    const result = afterTurn(relay, turn, nowMs);
    await this.#deliveries.endTurn(this.#processId, relay.url, result, nowMs);
    this.#tell(relay, result);
    if (result.restUntilMs !== null) {
      return 'resting';
    }
    return turn.hasEnded ? 'interrupted' : 'drained';
  }

  /** Strangers name relays that never were one: of those nobody needs to hear. */
  #tell({ url, failures, hasServed, isOwn }: ClaimedRelay, result: TurnResult): void {
    const level = hasServed || isOwn ? 'info' : 'debug';
    const relay = withoutQuery(url);
    if (failures === 0 && result.failures > 0) {
      this.#log[level](
        { relay, reason: result.word },
        'a relay takes no zap receipts; it is tried again at growing distances',
      );
    }
    if (failures > 0 && result.failures === 0) {
      this.#log[level]({ relay }, 'a relay takes zap receipts again');
    }
  }
}

/** One relay's turn as it goes on. */
class Turn implements TurnEnd {
  /** How many receipts the relay said something about. */
  answers = 0;
  acceptances = 0;
  isSlow = false;
  #trouble: RelayTrouble | null = null;
  readonly #isUp: (isSlow: boolean) => boolean;

  /** @param isUp whether it has to end though nothing is wrong, slow as the relay is or not */
  constructor(isUp: (isSlow: boolean) => boolean) {
    this.#isUp = isUp;
  }

  get trouble(): RelayTrouble | null {
    return this.#trouble;
  }

  /** Whether nothing more is to be sent. */
  get hasEnded(): boolean {
    return this.#trouble !== null || this.#isUp(this.isSlow);
  }

  /** The first trouble counts: the others follow from it. */
  endBy(trouble: RelayTrouble): void {
    this.#trouble ??= trouble;
  }
}

/** Does one lot after another, until one is not full or it is told to stop; resolves with how many in all. */
async function inLots(signal: AbortSignal, doLot: () => Promise<number>): Promise<number> {
  let inAll = 0;
  let inLot: number;
  do {
    inLot = await doLot();
    inAll += inLot;
    // An embedded database answers without ever leaving a moment to anything else.
    await othersTurn();
  } while (inLot === TIDY_LOT && !signal.aborted);
  return inAll;
}

/** Resolves with the work, or a moment after the signal. */
async function orStopped(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    const lastAnswers = () => setTimeout(resolve, LAST_ANSWERS_MS);
    signal.addEventListener('abort', lastAnswers, { signal: over.signal });
  });
  await Promise.race([work, stopped]).finally(() => over.abort());
}

/** How many receipts came to what. */
function counted(tried: readonly TriedReceipt[]) {
  const count = (state: TriedReceipt['state']) =>
    tried.filter((each) => each.state === state).length;
  return { accepted: count('accepted'), refused: count('refused'), later: count('open') };
}
