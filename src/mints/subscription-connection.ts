import { z } from 'zod';
import { type GuardedSocket, setTimeoutAfterPendingIo } from '../net/guarded-websocket.ts';
import { tryParseJson } from '../untrusted-text.ts';
import {
  MAX_QUOTES_PER_CONNECTION,
  MAX_SUBSCRIPTIONS_PER_CONNECTION,
  type SubscriptionTiming,
} from './limits.ts';
import type { SubscriptionKind } from './mint-info.ts';
import { parseQuoteObservation, type QuoteObservation } from './quote-responses.ts';

/** Nutshell's error message when its limit of messages is exceeded. */
const RATE_LIMITED_MESSAGE = /rate limit/i;

/** Handshake statuses that mean a rate limit; Nutshell sends 500. */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

export type OpenOutcome = 'open' | 'rate_limited' | 'failed';

/** `closed`: the connection ended before the mint responded. */
export type SubscribeOutcome = 'confirmed' | 'rejected' | 'rate_limited' | 'no_response' | 'closed';

interface ConnectionContext {
  socket: GuardedSocket;
  timing: Pick<SubscriptionTiming, 'pingIntervalMs' | 'responseTimeoutMs'>;
  onNotification: (observation: QuoteObservation) => void;
  onUnsubscribedQuote: () => void;
}

/** One WebSocket to a mint, and the quotes subscribed on it (NUT-17). */
export class SubscriptionConnection {
  readonly opened: Promise<OpenOutcome>;
  readonly closed: Promise<void>;
  subscriptionCount = 0;
  readonly #context: ConnectionContext;
  readonly #socket: GuardedSocket;
  /** The newest is last. */
  readonly #quoteIds = new Set<string>();
  /** By request id: the subscriptions that the mint has not answered. The oldest is first. */
  readonly #pendingRequests = new Map<number, (outcome: SubscribeOutcome) => void>();
  /** Whether a message or a pong has arrived since the last ping. True before the first ping. */
  #isAlive = true;

  constructor(context: ConnectionContext) {
    this.#context = context;
    this.#socket = context.socket;
    const opened = Promise.withResolvers<OpenOutcome>();
    const closed = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.closed = closed.promise;
    const pingTimer = setInterval(
      () => this.#checkHeartbeat(),
      context.timing.pingIntervalMs,
    ).unref();
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
      ? MAX_QUOTES_PER_CONNECTION - this.#quoteIds.size
      : 0;
  }

  /** Lists the subscribed quotes. The newest is last. */
  listQuoteIds(): string[] {
    return [...this.#quoteIds];
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
      this.#quoteIds.add(quoteId);
    }
    this.#pendingRequests.set(id, finish);
    const params = { kind, subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    setTimeoutAfterPendingIo(this.#context.timing.responseTimeoutMs, () => finish('no_response'));
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
    if (this.#quoteIds.has(observation.quoteId)) {
      this.#context.onNotification(observation);
    } else {
      this.#context.onUnsubscribedQuote();
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
