import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import type { Clock } from '../domain/clock.ts';
import { parseJson } from '../domain/foreign-text.ts';
import type { ObservedState, QuoteObservation } from '../domain/quote.ts';
import { byteLength, lookAfter } from '../net/socket-message.ts';
import { parseObservation } from './quote-answer.ts';
import { type Lot, SubscriptionReports } from './subscription-reports.ts';
import type { SubscriptionTiming } from './subscription-timing.ts';

/** cdk takes this many subscriptions on a connection; none is given back, so that one count serves. */
const MAX_SUBSCRIPTIONS = 100;

/**
 * Nutshell takes this many filters of a kind on a connection, for its lifetime: unsubscribing frees
 * none. cdk takes as many in one subscription.
 */
const MAX_FILTERS = 1000;

/**
 * What a connection may bring in its life, in messages: ten for each subscription, and for each quote
 * many times what there is to tell of it. An honest mint comes nowhere near.
 */
const MAX_MESSAGES = 1000;
const MAX_MESSAGES_PER_QUOTE = 64;

/** Few notifications are longer; a longer message counts as so many of this length. */
const MESSAGE_BYTES = 4096;

/** Pings and pongs between two pings of ours, which servers send about as often. */
const MAX_CONTROL_FRAMES = 100;

/** How a mint says that a message was one too many; Nutshell's words (measured). */
const RATE_LIMITED = /rate limit/i;

/**
 * Why a connection that is open is of no use.
 *
 * - `silent`: it has not told what a poll has told.
 * - `unanswered`: the mint has not answered a subscription.
 * - `flooding`: it brought more than any honest mint has to say. It is dead by then.
 */
export type ConnectionFault = 'silent' | 'unanswered' | 'flooding';

export interface ConnectionEvents {
  onOpen(): void;
  /** Once. `refusedStatus` is the HTTP status of a refused handshake. */
  onClosed(refusedStatus: number | null): void;
  /** The mint confirmed a subscription to so many ids, or refused it. */
  onAnswer(count: number, isConfirmed: boolean): void;
  /** The mint refused a message for too many. What it has not answered is not subscribed. */
  onRateLimited(): void;
  /** News of a quote that was subscribed. `isFirst`: it moved on, and no poll had told. */
  onObservation(observation: QuoteObservation, isFirst: boolean): void;
  /** Only while it is open, so not again once it is closed for it; `silent` may come repeatedly. */
  onFault(fault: ConnectionFault): void;
  /** How many messages were ignored since it was told last: at each ping, and at the end. */
  onMisconduct(kind: 'socket_flooding' | 'unasked', count: number): void;
}

/** One socket to a mint, from its opening to its end, and what was subscribed on it (NUT-17). */
export class SubscriptionConnection {
  readonly #socket: WebSocket;
  readonly #events: ConnectionEvents;
  readonly #timing: SubscriptionTiming;
  readonly #clock: Clock;
  readonly #pingTimer: NodeJS.Timeout;
  readonly #reports = new SubscriptionReports();
  /** By the id of the request that waits for its answer, turned away or not. */
  readonly #unanswered = new Map<number, { lot: Lot; count: number }>();
  #subscriptions = 0;
  #messages = 0;
  #controlFrames = 0;
  #isPeerAlive = true;
  #refusedStatus: number | null = null;
  /** Ignored and not told yet. */
  readonly #ignored = { socket_flooding: 0, unasked: 0 };

  constructor(options: {
    socket: WebSocket;
    events: ConnectionEvents;
    timing: SubscriptionTiming;
    clock: Clock;
  }) {
    this.#socket = options.socket;
    this.#events = options.events;
    this.#timing = options.timing;
    this.#clock = options.clock;
    this.#pingTimer = setInterval(() => this.#ping(), options.timing.pingIntervalMs).unref();
    this.#listen();
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  /** How many more filters this connection can ever take. */
  get room(): number {
    return this.#subscriptions < MAX_SUBSCRIPTIONS ? MAX_FILTERS - this.#reports.size : 0;
  }

  hasSubscribed(quoteId: string): boolean {
    return this.#reports.has(quoteId);
  }

  /** Whether news of the quote comes on this connection, now. */
  covers(quoteId: string): boolean {
    return this.isOpen && this.#reports.covers(quoteId);
  }

  /** Subscribes ids, no more than there is {@link room} for, in one message. */
  subscribe(quoteIds: readonly string[]): void {
    this.#subscriptions += 1;
    const id = this.#subscriptions;
    const lot = this.#reports.add(quoteIds);
    this.#unanswered.set(id, { lot, count: quoteIds.length });
    const params = { kind: 'bolt11_mint_quote', subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    this.#lookAfter(this.#timing.answerTimeoutMs, () => {
      if (this.#unanswered.has(id) && !lot.isTurnedAway) {
        this.#events.onFault('unanswered');
      }
    });
  }

  /** Compares what a poll brought with what came here; there is a while for it to come still. */
  polledNews(quoteId: string, state: ObservedState): void {
    this.#reports.polled(quoteId, state);
    const confirmedBy = this.#clock() - this.#timing.settledAfterMs;
    const isLacking = () => this.#reports.lacks(quoteId, state, confirmedBy);
    if (isLacking()) {
      this.#lookAfter(this.#timing.silenceGraceMs, () => {
        if (isLacking()) {
          this.#events.onFault('silent');
        }
      });
    }
  }

  /** Ends the connection, politely for a moment and then at once (`net/`). It brings no more news. */
  close(): void {
    clearInterval(this.#pingTimer);
    this.#socket.close();
  }

  #listen(): void {
    this.#socket.on('open', () => this.#events.onOpen());
    this.#socket.on('message', (data, isBinary) => {
      this.#isPeerAlive = true;
      if (this.isOpen && this.#isBearable(byteLength(data)) && !isBinary) {
        this.#receive(data);
      }
    });
    this.#socket.on('ping', () => this.#receiveControlFrame());
    this.#socket.on('pong', () => {
      this.#isPeerAlive = true;
      this.#receiveControlFrame();
    });
    this.#socket.on('unexpected-response', (_request, response) => {
      this.#refusedStatus = response.statusCode ?? null;
      response.resume();
      this.#socket.terminate();
    });
    // The close that follows says all that matters.
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => {
      clearInterval(this.#pingTimer);
      this.#tellIgnored();
      this.#events.onClosed(this.#refusedStatus);
    });
  }

  #ping(): void {
    this.#tellIgnored();
    if (!this.isOpen) {
      return;
    }
    if (!this.#isPeerAlive) {
      this.#socket.terminate();
      return;
    }
    this.#isPeerAlive = false;
    this.#controlFrames = 0;
    this.#socket.ping();
  }

  /** Looks once more after a delay, while open. */
  #lookAfter(delayMs: number, look: () => void): void {
    lookAfter(delayMs, () => {
      if (this.isOpen) {
        look();
      }
    });
  }

  /** Counts a message; false where it is one too many. */
  #isBearable(bytes: number): boolean {
    this.#messages += Math.max(1, Math.ceil(bytes / MESSAGE_BYTES));
    const isBearable = this.#messages <= MAX_MESSAGES + MAX_MESSAGES_PER_QUOTE * this.#reports.size;
    if (!isBearable) {
      this.#endFlood();
    }
    return isBearable;
  }

  #receiveControlFrame(): void {
    this.#controlFrames += 1;
    if (this.isOpen && this.#controlFrames > MAX_CONTROL_FRAMES) {
      this.#endFlood();
    }
  }

  /** Not politely: who floods is not listened to for another moment. */
  #endFlood(): void {
    this.#ignored.socket_flooding += 1;
    this.#socket.terminate();
    this.#events.onFault('flooding');
  }

  /** Answers and notifications; anything else is ignored. */
  #receive(data: RawData): void {
    const { data: message } = MESSAGE.safeParse(parseJson(data.toString()));
    if (message === undefined) {
      return;
    }
    if ('params' in message) {
      const observation = parseObservation(message.params.payload);
      if (observation !== null) {
        this.#takeReport(observation);
      }
      return;
    }
    if (RATE_LIMITED.test(message.error?.message ?? '')) {
      this.#turnAway();
      return;
    }
    const subscription = this.#unanswered.get(message.id);
    if (subscription === undefined) {
      return;
    }
    this.#unanswered.delete(message.id);
    const isConfirmed = message.result?.status === 'OK';
    subscription.lot.isTurnedAway = false;
    if (isConfirmed) {
      subscription.lot.confirmedAt = this.#clock();
    }
    this.#events.onAnswer(subscription.count, isConfirmed);
  }

  /**
   * Nutshell does not say which message it refused (its id is 0), and what was sent after it has no
   * better prospects. One that is answered all the same was taken up.
   */
  #turnAway(): void {
    for (const { lot } of this.#unanswered.values()) {
      lot.isTurnedAway = true;
    }
    this.#events.onRateLimited();
  }

  #takeReport(observation: QuoteObservation): void {
    const kind = this.#reports.take(observation);
    switch (kind) {
      case 'told_first':
      case 'news':
        this.#events.onObservation(observation, kind === 'told_first');
        break;
      case 'repeated':
        break;
      case 'excess':
        this.#ignored.socket_flooding += 1;
        break;
      case 'unasked':
        this.#ignored.unasked += 1;
        break;
    }
  }

  #tellIgnored(): void {
    for (const kind of ['socket_flooding', 'unasked'] as const) {
      if (this.#ignored[kind] > 0) {
        this.#events.onMisconduct(kind, this.#ignored[kind]);
        this.#ignored[kind] = 0;
      }
    }
  }
}

const NOTIFICATION = z.object({
  method: z.literal('subscribe'),
  params: z.object({ payload: z.unknown() }),
});
/** Without a `result` that says OK it is a refusal, whatever else it holds. */
const ANSWER = z.object({
  /** 0, which no request of ours has, where the mint does not say. */
  id: z.number().catch(0),
  result: z.object({ status: z.string() }).optional().catch(undefined),
  error: z.object({ message: z.string() }).optional().catch(undefined),
});
const MESSAGE = z.union([NOTIFICATION, ANSWER]);
