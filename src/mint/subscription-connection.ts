import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import type { QuoteObservation } from '../domain/quote.ts';
import { parseJson } from './mint-error.ts';
import { parseObservation } from './quote-answer.ts';

/** cdk takes this many subscriptions on a connection; none is given back, so that one count serves. */
const MAX_SUBSCRIPTIONS = 100;

/**
 * Nutshell takes this many filters of a kind on a connection, for its lifetime: unsubscribing frees
 * none. cdk takes as many in one subscription.
 */
const MAX_FILTERS = 1000;

/** How long the closing handshake may take. */
const CLOSE_TIMEOUT_MS = 1_000;

export interface ConnectionEvents {
  onOpen(): void;
  /** Once. `refusedStatus` is the HTTP status of a refused handshake. */
  onClosed(refusedStatus: number | null): void;
  /** The mint confirmed a subscription to so many ids, or refused it. */
  onAnswer(count: number, isConfirmed: boolean): void;
  /** Of whatever quote the mint speaks. */
  onObservation(observation: QuoteObservation): void;
}

/** One socket to a mint, from its opening to its end, and what was subscribed on it (NUT-17). */
export class SubscriptionConnection {
  readonly #socket: WebSocket;
  readonly #events: ConnectionEvents;
  readonly #pingTimer: NodeJS.Timeout;
  /** Every id ever subscribed here, the refused ones too: asking again would only cost filters. */
  readonly #subscribed = new Set<string>();
  readonly #confirmed = new Set<string>();
  /** By the id of the request that waits for its answer. */
  readonly #unanswered = new Map<number, readonly string[]>();
  #subscriptions = 0;
  #isPeerAlive = true;
  #refusedStatus: number | null = null;

  /** @param options.pingIntervalMs a peer that is silent for one to two of these is dead */
  constructor(options: { socket: WebSocket; events: ConnectionEvents; pingIntervalMs: number }) {
    this.#socket = options.socket;
    this.#events = options.events;
    this.#pingTimer = setInterval(() => this.#ping(), options.pingIntervalMs).unref();
    this.#listen();
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  /** How many more filters this connection can ever take. */
  get room(): number {
    return this.#subscriptions < MAX_SUBSCRIPTIONS ? MAX_FILTERS - this.#subscribed.size : 0;
  }

  hasSubscribed(quoteId: string): boolean {
    return this.#subscribed.has(quoteId);
  }

  /** Whether news of the quote comes on this connection, now. */
  covers(quoteId: string): boolean {
    return this.isOpen && this.#confirmed.has(quoteId);
  }

  /** Subscribes ids, no more than there is {@link room} for, in one message. */
  subscribe(quoteIds: readonly string[]): void {
    this.#subscriptions += 1;
    const id = this.#subscriptions;
    for (const quoteId of quoteIds) {
      this.#subscribed.add(quoteId);
    }
    this.#unanswered.set(id, quoteIds);
    const params = { kind: 'bolt11_mint_quote', subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
  }

  /** Ends the connection, politely for a moment and then at once. */
  close(): void {
    clearInterval(this.#pingTimer);
    const timer = setTimeout(() => this.#socket.terminate(), CLOSE_TIMEOUT_MS).unref();
    this.#socket.once('close', () => clearTimeout(timer));
    this.#socket.close();
  }

  #listen(): void {
    this.#socket.on('open', () => this.#events.onOpen());
    this.#socket.on('message', (data, isBinary) => {
      this.#isPeerAlive = true;
      if (!isBinary) {
        this.#receive(data);
      }
    });
    this.#socket.on('pong', () => {
      this.#isPeerAlive = true;
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
      this.#events.onClosed(this.#refusedStatus);
    });
  }

  #ping(): void {
    if (!this.isOpen) {
      return;
    }
    if (!this.#isPeerAlive) {
      this.#socket.terminate();
      return;
    }
    this.#isPeerAlive = false;
    this.#socket.ping();
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
        this.#events.onObservation(observation);
      }
      return;
    }
    const quoteIds = this.#unanswered.get(message.id);
    if (quoteIds === undefined) {
      return;
    }
    this.#unanswered.delete(message.id);
    const isConfirmed = message.result?.status === 'OK';
    if (isConfirmed) {
      for (const quoteId of quoteIds) {
        this.#confirmed.add(quoteId);
      }
    }
    this.#events.onAnswer(quoteIds.length, isConfirmed);
  }
}

const NOTIFICATION = z.object({
  method: z.literal('subscribe'),
  params: z.object({ payload: z.unknown() }),
});
/** Without a `result` that says OK it is a refusal, whatever else it holds. */
const ANSWER = z.object({
  id: z.number(),
  result: z.object({ status: z.string() }).optional().catch(undefined),
});
const MESSAGE = z.union([NOTIFICATION, ANSWER]);
