import { z } from 'zod';
import { type GuardedSocket, setTimeoutAfterPendingIo } from '../net/guarded-websocket.ts';
import { tryParseJson } from '../untrusted-text.ts';
import type { SubscriptionTiming } from './limits.ts';
import type { SubscriptionKind } from './mint-info.ts';
import { parseQuoteObservation, type QuoteObservation } from './quote-responses.ts';

export type OpenOutcome = 'open' | 'rate_limited' | 'failed';

/** `closed`: the connection ended before the mint responded. */
export type SubscribeOutcome = 'confirmed' | 'rejected' | 'rate_limited' | 'no_response' | 'closed';

interface ConnectionContext {
  socket: GuardedSocket;
  timing: Pick<SubscriptionTiming, 'pingIntervalMs' | 'responseTimeoutMs'>;
  onNotification: (observation: QuoteObservation) => void;
}

/** One WebSocket to a mint, and the quotes subscribed on it (NUT-17). */
export class SubscriptionConnection {
  readonly opened: Promise<OpenOutcome>;
  readonly closed: Promise<void>;
  subscriptionCount = 0;
  readonly #context: ConnectionContext;
  /** The oldest is first. */
  readonly #quoteIds = new Set<string>();
  /** Callbacks for the subscriptions that the mint has not answered, by request id. The oldest is first. */
  readonly #pendingRequests = new Map<number, (outcome: SubscribeOutcome) => void>();
  /** Whether a message or a pong has arrived since the last ping; initially true. */
  #isAlive = true;

  constructor(context: ConnectionContext) {
    this.#context = context;
    const { socket, timing } = context;
    const opened = Promise.withResolvers<OpenOutcome>();
    const closed = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.closed = closed.promise;
    const pingTimer = setInterval(() => this.#checkHeartbeat(), timing.pingIntervalMs).unref();
    socket.once('open', () => opened.resolve('open'));
    socket.on('message', (text) => {
      this.#isAlive = true;
      this.#handleMessage(text);
    });
    socket.on('pong', () => {
      this.#isAlive = true;
    });
    socket.once('close', ({ status }) => {
      clearInterval(pingTimer);
      for (const finish of this.#pendingRequests.values()) {
        finish('closed');
      }
      // Nutshell sends 500 instead of 429.
      opened.resolve(status === 429 || status === 500 ? 'rate_limited' : 'failed');
      closed.resolve();
    });
  }

  get isOpen(): boolean {
    return this.#context.socket.state === 'open';
  }

  get remainingCapacity(): number {
    // For the lifetime of a connection, cdk-mintd accepts 100 subscriptions, and Nutshell 1,000 quotes.
    return this.subscriptionCount < 100 ? 1_000 - this.#quoteIds.size : 0;
  }

  listQuoteIds(): string[] {
    return [...this.#quoteIds];
  }

  subscribe(quoteIds: readonly string[], kind: SubscriptionKind): Promise<SubscribeOutcome> {
    const { promise, resolve } = Promise.withResolvers<SubscribeOutcome>();
    this.subscriptionCount += 1;
    const id = this.subscriptionCount;
    const timer = setTimeoutAfterPendingIo(this.#context.timing.responseTimeoutMs, () =>
      finish('no_response'),
    );
    const finish = (outcome: SubscribeOutcome) => {
      clearTimeout(timer);
      this.#pendingRequests.delete(id);
      resolve(outcome);
    };
    for (const quoteId of quoteIds) {
      this.#quoteIds.add(quoteId);
    }
    this.#pendingRequests.set(id, finish);
    const params = { kind, subId: `quotes-${id}`, filters: quoteIds };
    this.#context.socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    return promise;
  }

  close(): void {
    this.#context.socket.close();
  }

  #checkHeartbeat(): void {
    if (!this.#isAlive) {
      this.#context.socket.terminate();
    } else if (this.isOpen) {
      this.#isAlive = false;
      this.#context.socket.ping();
    }
  }

  #handleMessage(text: string): void {
    const { data: message } = messageSchema.safeParse(tryParseJson(text));
    if (message === undefined) {
      return;
    }
    if ('params' in message) {
      const observation = parseQuoteObservation(message.params.payload);
      if (observation !== null && this.#quoteIds.has(observation.quoteId)) {
        this.#context.onNotification(observation);
      }
    } else if (/rate limit/i.test(message.error?.message ?? '')) {
      // Nutshell's message has no request id. It is for the oldest request, because responses arrive in order.
      const [oldest] = this.#pendingRequests.values();
      oldest?.('rate_limited');
    } else {
      const isConfirmed = message.result?.status === 'OK';
      this.#pendingRequests.get(message.id)?.(isConfirmed ? 'confirmed' : 'rejected');
    }
  }
}

const messageSchema = z.union([
  z.object({ method: z.literal('subscribe'), params: z.object({ payload: z.unknown() }) }),
  z.object({
    // 0 if the id is missing: no request has this id.
    id: z.number().catch(0),
    result: z.object({ status: z.string() }).optional().catch(undefined),
    error: z.object({ message: z.string() }).optional().catch(undefined),
  }),
]);
