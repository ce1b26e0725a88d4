import { z } from 'zod';
import { type GuardedSocket, setTimeoutAfterPendingIo } from '../net/guarded-websocket.ts';
import { tryParseJson } from '../untrusted-text.ts';
import type { SubscriptionKind } from './mint-info.ts';
import {
  type ObservedState,
  parseQuoteObservation,
  type QuoteObservation,
} from './quote-responses.ts';

/** The limit of cdk-mintd. */
const MAX_SUBSCRIPTIONS_PER_CONNECTION = 100;

/** Nutshell's limit for the lifetime of a connection. Quotes count even after they are unsubscribed. */
const MAX_QUOTES_PER_CONNECTION = 1000;

/** Nutshell's error message when its limit of messages is exceeded. */
const RATE_LIMITED_MESSAGE = /rate limit/i;

/** Handshake statuses that mean a rate limit; Nutshell sends 500. */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

export type OpenOutcome = 'open' | 'rate_limited' | 'failed';

/** `closed`: the connection ended before the mint responded. */
export type SubscribeOutcome = 'confirmed' | 'rejected' | 'rate_limited' | 'no_response' | 'closed';

interface SubscriptionConnectionDeps {
  socket: GuardedSocket;
  timing: { pingIntervalMs: number; responseTimeoutMs: number };
  /** `isChange` is false for the first state, which the mint sends right after the subscription. */
  onObservation: (observation: QuoteObservation, isChange: boolean) => void;
  onUnsubscribedQuote: () => void;
}

/** One WebSocket to a mint, and the quotes subscribed on it (NUT-17). */
export class SubscriptionConnection {
  readonly opened: Promise<OpenOutcome>;
  readonly closed: Promise<void>;
  subscriptionCount = 0;
  readonly #deps: SubscriptionConnectionDeps;
  readonly #socket: GuardedSocket;
  /** The last reported state of each subscribed quote, or null. The newest quote is last. */
  readonly #lastStates = new Map<string, ObservedState | null>();
  /** By request id: the subscriptions that the mint has not answered. The oldest is first. */
  readonly #pendingRequests = new Map<number, (outcome: SubscribeOutcome) => void>();
  /** Whether a message or a pong has arrived since the last ping. True before the first ping. */
  #isAlive = true;

  constructor(deps: SubscriptionConnectionDeps) {
    this.#deps = deps;
    this.#socket = deps.socket;
    const opened = Promise.withResolvers<OpenOutcome>();
    const closed = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.closed = closed.promise;
    const pingTimer = setInterval(() => this.#checkHeartbeat(), deps.timing.pingIntervalMs).unref();
    this.#socket.once('open', () => opened.resolve('open'));
    this.#socket.on('message', (text) => {
      this.#isAlive = true;
      this.#handleMessage(text);
    });
    this.#socket.on('pong', () => {
      this.#isAlive = true;
    });
    this.#socket.once('close', ({ status }) => {
      clearInterval(pingTimer);
      for (const finish of this.#pendingRequests.values()) {
        finish('closed');
      }
      opened.resolve(RATE_LIMITED_STATUSES.has(status ?? 0) ? 'rate_limited' : 'failed');
      closed.resolve();
    });
  }

  get isOpen(): boolean {
    return this.#socket.state === 'open';
  }

  /** How many more quotes can be subscribed on this connection. */
  get remainingCapacity(): number {
    return this.subscriptionCount < MAX_SUBSCRIPTIONS_PER_CONNECTION
      ? MAX_QUOTES_PER_CONNECTION - this.#lastStates.size
      : 0;
  }

  /** Lists the subscribed quotes. The newest is last. */
  listQuoteIds(): string[] {
    return [...this.#lastStates.keys()];
  }

  /**
   * Whether the mint reports changes of the quote on this connection. Only the first state confirms that: mints also
   * respond OK to subscriptions to unknown quotes, and cdk-mintd drops notifications when its queue is full.
   */
  isCovered(quoteId: string): boolean {
    return this.isOpen && this.#lastStates.get(quoteId) != null;
  }

  /** Subscribes to at most {@link remainingCapacity} quotes with one message. */
  subscribe(quoteIds: readonly string[], kind: SubscriptionKind): Promise<SubscribeOutcome> {
    const { promise, resolve } = Promise.withResolvers<SubscribeOutcome>();
    this.subscriptionCount += 1;
    const id = this.subscriptionCount;
    const finish = (outcome: SubscribeOutcome) => {
      this.#pendingRequests.delete(id);
      resolve(outcome);
    };
    for (const quoteId of quoteIds) {
      this.#lastStates.set(quoteId, null);
    }
    this.#pendingRequests.set(id, finish);
    const params = { kind, subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    setTimeoutAfterPendingIo(this.#deps.timing.responseTimeoutMs, () => finish('no_response'));
    return promise;
  }

  close(): void {
    this.#socket.close();
  }

  /** Terminates the connection if neither a message nor a pong has arrived since the last ping. */
  #checkHeartbeat(): void {
    if (!this.#isAlive) {
      this.#socket.terminate();
    } else if (this.isOpen) {
      this.#isAlive = false;
      this.#socket.ping();
    }
  }

  #handleMessage(text: string): void {
    const { data: message } = messageSchema.safeParse(tryParseJson(text));
    if (message === undefined) {
      return;
    }
    if ('params' in message) {
      this.#handleNotification(parseQuoteObservation(message.params.payload));
    } else if (RATE_LIMITED_MESSAGE.test(message.error?.message ?? '')) {
      // Nutshell's rejection contains no request id. It refers to the oldest request, because responses are in order.
      const [oldest] = this.#pendingRequests.values();
      oldest?.('rate_limited');
    } else {
      const isConfirmed = message.result?.status === 'OK';
      this.#pendingRequests.get(message.id)?.(isConfirmed ? 'confirmed' : 'rejected');
    }
  }

  #handleNotification(observation: QuoteObservation | null): void {
    if (observation === null) {
      return;
    }
    const { quoteId, state } = observation;
    const lastState = this.#lastStates.get(quoteId);
    if (lastState === undefined) {
      this.#deps.onUnsubscribedQuote();
    } else if (lastState !== state) {
      this.#lastStates.set(quoteId, state);
      this.#deps.onObservation(observation, lastState !== null);
    }
  }
}

const messageSchema = z.union([
  z.object({ method: z.literal('subscribe'), params: z.object({ payload: z.unknown() }) }),
  z.object({
    /** 0 for a missing id, because no request has this id. */
    id: z.number().catch(0),
    result: z.object({ status: z.string() }).optional().catch(undefined),
    error: z.object({ message: z.string() }).optional().catch(undefined),
  }),
]);
