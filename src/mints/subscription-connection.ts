import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import { messageByteLength, setTimeoutAfterPendingIo } from '../net/guarded-websocket.ts';
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

/** Frames, including pings and pongs, that a mint may always send between two pings. Honest mints send far fewer. */
const FRAMES_PER_PING = 15;

/** Frames that a mint may send in addition for each subscribed quote. An honest mint reports about four states. */
const FRAMES_PER_QUOTE = 10;

/** A longer message counts as several frames. Parsing a frame takes about 20 µs at worst. */
const FRAME_BYTES = 1024;

/** Nutshell's error message when its limit of messages is exceeded. */
const RATE_LIMITED_MESSAGE = /rate limit/i;

/** Handshake statuses that mean a rate limit; Nutshell sends 500. */
const RATE_LIMITED_STATUSES: ReadonlySet<number> = new Set([429, 500]);

export type OpenOutcome = 'open' | 'rate_limited' | 'failed';

/** `closed`: the connection ended before the mint responded. */
export type SubscribeOutcome = 'confirmed' | 'rejected' | 'rate_limited' | 'no_response' | 'closed';

interface SubscriptionConnectionDeps {
  socket: WebSocket;
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
  /** How many frames the mint has sent. */
  frameCount = 0;
  /** Whether the connection was terminated because the mint sent too much. */
  hasFlooded = false;
  readonly #deps: SubscriptionConnectionDeps;
  readonly #socket: WebSocket;
  /** The last reported state of each subscribed quote, or null. The newest quote is last. */
  readonly #lastStates = new Map<string, ObservedState | null>();
  /** By request id: the subscriptions that the mint has not answered. The oldest is first. */
  readonly #pendingRequests = new Map<number, (outcome: SubscribeOutcome) => void>();
  /** How many more frames the mint may send. */
  #frameAllowance = FRAMES_PER_PING;
  /** Whether a frame has arrived since the last ping. True before the first ping. */
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
    this.#socket.on('unexpected-response', (_request, response) => {
      const isLimited = RATE_LIMITED_STATUSES.has(response.statusCode ?? 0);
      opened.resolve(isLimited ? 'rate_limited' : 'failed');
      response.resume();
      this.#socket.terminate();
    });
    // Without a listener, an error would end the process. A close event always follows.
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => {
      clearInterval(pingTimer);
      for (const finish of this.#pendingRequests.values()) {
        finish('closed');
      }
      opened.resolve('failed');
      closed.resolve();
    });
    this.#socket.on('message', (data, isBinary) => {
      this.#countFrame(messageByteLength(data));
      if (this.isOpen && !isBinary) {
        this.#handleMessage(data);
      }
    });
    this.#socket.on('ping', () => this.#countFrame(0));
    this.#socket.on('pong', () => this.#countFrame(0));
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
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
    this.#frameAllowance += FRAMES_PER_QUOTE * quoteIds.length;
    this.#pendingRequests.set(id, finish);
    const params = { kind, subId: `quotes-${id}`, filters: quoteIds };
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'subscribe', params }));
    setTimeoutAfterPendingIo(this.#deps.timing.responseTimeoutMs, () => finish('no_response'));
    return promise;
  }

  close(): void {
    this.#socket.close();
  }

  /** Terminates the connection if nothing, not even a pong, has arrived since the last ping. */
  #checkHeartbeat(): void {
    if (!this.#isAlive) {
      this.#socket.terminate();
    } else if (this.isOpen) {
      this.#isAlive = false;
      this.#frameAllowance = Math.max(this.#frameAllowance, FRAMES_PER_PING);
      this.#socket.ping();
    }
  }

  /** Terminates the connection if the mint floods it. During a closing handshake, the flood would continue. */
  #countFrame(bytes: number): void {
    const frames = Math.max(1, Math.ceil(bytes / FRAME_BYTES));
    this.#isAlive = true;
    this.frameCount += frames;
    this.#frameAllowance -= frames;
    if (this.#frameAllowance < 0) {
      this.hasFlooded = true;
      this.#socket.terminate();
    }
  }

  #handleMessage(data: RawData): void {
    const { data: message } = messageSchema.safeParse(tryParseJson(data.toString()));
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
