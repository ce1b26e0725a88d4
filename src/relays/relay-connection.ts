import type { Event, Filter } from 'nostr-tools';
import { matchFilter } from 'nostr-tools/filter';
import { makeAuthEvent } from 'nostr-tools/nip42';
import type { RawData, WebSocket } from 'ws';
import type { EventSigner } from '../auth/event-signer.ts';
import type { EventVerifier } from '../auth/event-verifier.ts';
import { type Clock, toUnixSeconds } from '../domain/clock.ts';
import type { PublishResult } from '../domain/receipt-delivery.ts';
import { type RelayRefusal, readRelayWord } from '../domain/relay-word.ts';
import type { Log } from '../log.ts';
import { byteLength, lookAfter } from '../net/socket-message.ts';
import { parseRelayMessage, type RelayMessage } from './relay-message.ts';
import { type UnreachableRelay, unreachableRelay } from './unreachable-relay.ts';

/** How long connections wait, in milliseconds. */
export interface RelayTiming {
  /** From sending an event to its OK, including AUTH. Relays answer within a second. */
  answerTimeoutMs: number;
  /** Before a connection without requests is closed: NATs forget silent connections after a minute. */
  idleMs: number;
}

export const DEFAULT_RELAY_TIMING: Readonly<RelayTiming> = {
  answerTimeoutMs: 5_000,
  idleMs: 30_000,
};

/** Twice a batch of receipts, each of which has at most 16 KiB. */
const MAX_PUBLICATIONS = 64;

/** Relays commonly allow 20 subscriptions for each connection. */
const MAX_QUERIES = 10;

/** Messages that answer nothing, between two answers: chatty relays send a NOTICE with each rejection. */
const MAX_UNSOLICITED_MESSAGES = 256;
const MAX_UNSOLICITED_BYTES = 512 * 1024;

/** A relay may ask again when its session ends. */
const MAX_AUTHS = 4;

/** `none`: the relay has no such event. `unanswered`: it is unknown whether it has one. */
export type QueryResult =
  | { outcome: 'found'; event: Event }
  | { outcome: 'none' }
  | { outcome: 'unanswered' };

/** What a connection needs. */
export interface RelayConnectionParts {
  /** The relay's URL, which AUTH events name. */
  url: string;
  socket: WebSocket;
  /** Signs AUTH events (NIP-42); null: relays that demand AUTH refuse. */
  signer: EventSigner | null;
  verifyEvent: EventVerifier;
  clock: Clock;
  log: Log;
  timing: RelayTiming;
  /** Called once, when the connection accepts no more requests. */
  onEnd: () => void;
}

interface Refusal {
  refusal: RelayRefusal;
  word: string;
}

interface Publication {
  message: string;
  resolve: (result: PublishResult) => void;
  /** Runs once the event is sent. */
  timer: NodeJS.Timeout | null;
  /** The relay demanded AUTH: the event is sent again if AUTH succeeds, and refused otherwise. */
  refusedForAuth: Refusal | null;
  wasResent: boolean;
}

interface Query {
  message: string;
  filter: Filter;
  resolve: (result: QueryResult) => void;
  timer: NodeJS.Timeout;
}

/**
 * One WebSocket to a relay: publishes events, finds stored ones and answers AUTH (NIP-01, NIP-42). Never
 * throws for anything that the relay does.
 *
 * A relay that leaves an event unanswered, or sends too much that answers nothing, is disconnected.
 */
export class RelayConnection {
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  readonly #parts: RelayConnectionParts;
  /** By event id. */
  readonly #publications = new Map<string, Publication>();
  /** By subscription id. */
  readonly #queries = new Map<string, Query>();
  #queryCount = 0;
  #unsolicited = { messages: 0, bytes: 0 };
  #auth: 'unasked' | 'pending' | 'granted' = 'unasked';
  #authCount = 0;
  #authEventId = '';
  #idleTimer: NodeJS.Timeout | undefined;
  #hasEnded = false;
  #wasOpened = false;
  #error: unknown = null;

  constructor(parts: RelayConnectionParts) {
    this.#parts = parts;
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    this.#listen(closed.resolve);
  }

  /** Whether it accepts requests. */
  get isUsable(): boolean {
    const { readyState, CONNECTING, OPEN } = this.#parts.socket;
    return !this.#hasEnded && (readyState === CONNECTING || readyState === OPEN);
  }

  get isIdle(): boolean {
    return this.#publications.size === 0 && this.#queries.size === 0;
  }

  /** Publishes an event, whose JSON is sent unchanged. */
  async publish({ id, text }: { id: string; text: string }): Promise<PublishResult> {
    const isFull = this.#publications.size >= MAX_PUBLICATIONS;
    if (!this.isUsable || isFull || this.#publications.has(id)) {
      return { outcome: 'unreachable', reason: 'too many requests in flight' };
    }
    const { promise, resolve } = Promise.withResolvers<PublishResult>();
    const message = `["EVENT",${text}]`;
    const state = { timer: null, refusedForAuth: null, wasResent: false };
    const publication: Publication = { message, resolve, ...state };
    clearTimeout(this.#idleTimer);
    this.#publications.set(id, publication);
    if (this.#isOpen) {
      this.#send(id, publication);
    }
    return promise;
  }

  /** Finds the newest stored event that matches. The timeout includes the handshake. */
  async query(filter: Filter, timeoutMs: number): Promise<QueryResult> {
    if (!this.isUsable || this.#queries.size >= MAX_QUERIES) {
      return { outcome: 'unanswered' };
    }
    const { promise, resolve } = Promise.withResolvers<QueryResult>();
    const id = `q${this.#queryCount}`;
    this.#queryCount += 1;
    const message = JSON.stringify(['REQ', id, { ...filter, limit: 1 }]);
    const timer = lookAfter(timeoutMs, () => this.#endSlowQuery(id));
    clearTimeout(this.#idleTimer);
    this.#queries.set(id, { message, filter, resolve, timer });
    if (this.#isOpen) {
      this.#parts.socket.send(message);
    }
    return promise;
  }

  /** Ends the connection and every request. */
  close(): void {
    this.#end('closed');
    this.#parts.socket.close();
  }

  get #isOpen(): boolean {
    return this.#parts.socket.readyState === this.#parts.socket.OPEN;
  }

  #listen(onClosed: () => void): void {
    const { socket } = this.#parts;
    socket.once('open', () => {
      this.#wasOpened = true;
      for (const [id, publication] of this.#publications) {
        this.#send(id, publication);
      }
      for (const { message } of this.#queries.values()) {
        socket.send(message);
      }
    });
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    socket.on('ping', (data) => this.#countUnsolicited(data.byteLength));
    socket.on('pong', (data) => this.#countUnsolicited(data.byteLength));
    socket.on('error', (error) => {
      this.#error ??= error;
    });
    socket.once('close', () => {
      this.#end(this.#wasOpened ? 'connection lost' : unreachableRelay(this.#error));
      onClosed();
    });
  }

  #send(id: string, publication: Publication): void {
    publication.timer ??= lookAfter(this.#parts.timing.answerTimeoutMs, () => {
      if (this.#publications.get(id) === publication) {
        this.#cut();
      }
    });
    this.#parts.socket.send(publication.message);
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#hasEnded) {
      return;
    }
    try {
      const message = isBinary ? null : parseRelayMessage(String(data));
      if (message !== null && this.#handle(message)) {
        this.#unsolicited = { messages: 0, bytes: 0 };
      } else {
        this.#countUnsolicited(byteLength(data));
      }
    } catch (error) {
      // A bug of ours, which a stranger must not use to end the process.
      this.#parts.log.error(
        { event: 'relay_message_failed', err: error },
        'could not handle a message of a relay',
      );
      this.#cut();
    }
  }

  /** @returns whether the message answers something */
  #handle(message: RelayMessage): boolean {
    switch (message.kind) {
      case 'OK':
        return message.id === this.#authEventId
          ? this.#handleAuthOk(message.isAccepted, message.message)
          : this.#handleOk(message.id, message.isAccepted, message.message);
      case 'AUTH':
        return this.#answerChallenge(message.challenge);
      case 'EVENT':
        return this.#handleEvent(message.subscription, message.event);
      case 'EOSE':
        return this.#endQuery(message.subscription, { outcome: 'none' });
      case 'CLOSED':
        return this.#endQuery(message.subscription, { outcome: 'unanswered' });
    }
  }

  #handleOk(id: string, isAccepted: boolean, message: string): boolean {
    const publication = this.#publications.get(id);
    if (publication === undefined) {
      return false;
    }
    const { meaning, word } = readRelayWord(message);
    if (isAccepted || meaning === 'duplicate') {
      this.#endPublication(id, publication, { outcome: 'accepted', word });
      return true;
    }
    if (publication.refusedForAuth !== null) {
      return false;
    }
    const refusal = { refusal: meaning, word };
    const isFinal = meaning !== 'auth_required' || this.#parts.signer === null;
    if (isFinal || publication.wasResent) {
      this.#endPublication(id, publication, { outcome: 'refused', ...refusal });
    } else if (this.#auth === 'granted') {
      this.#resend(id, publication);
    } else {
      publication.refusedForAuth = refusal;
    }
    return true;
  }

  #resend(id: string, publication: Publication): void {
    publication.refusedForAuth = null;
    publication.wasResent = true;
    this.#send(id, publication);
  }

  #handleEvent(subscription: string, event: Event): boolean {
    const filter = this.#queries.get(subscription)?.filter;
    return (
      filter !== undefined &&
      matchFilter(filter, event) &&
      this.#parts.verifyEvent(event) &&
      this.#endQuery(subscription, { outcome: 'found', event })
    );
  }

  #answerChallenge(challenge: string): boolean {
    const { signer, url, clock, socket } = this.#parts;
    if (signer === null || this.#auth === 'pending' || this.#authCount >= MAX_AUTHS) {
      return false;
    }
    this.#authCount += 1;
    const event = signer.sign({
      ...makeAuthEvent(url, challenge),
      created_at: toUnixSeconds(clock()),
    });
    this.#authEventId = event.id;
    this.#auth = 'pending';
    socket.send(JSON.stringify(['AUTH', event]));
    return true;
  }

  #handleAuthOk(isAccepted: boolean, message: string): boolean {
    if (this.#auth !== 'pending') {
      return false;
    }
    const waiting = [...this.#publications].filter(([, each]) => each.refusedForAuth !== null);
    if (isAccepted) {
      this.#auth = 'granted';
      for (const [id, publication] of waiting) {
        this.#resend(id, publication);
      }
      return true;
    }
    const { meaning, word } = readRelayWord(message);
    for (const [, publication] of waiting) {
      publication.refusedForAuth = { refusal: meaning === 'duplicate' ? 'other' : meaning, word };
    }
    this.close();
    return true;
  }

  #endPublication(id: string, publication: Publication, result: PublishResult): void {
    clearTimeout(publication.timer ?? undefined);
    this.#publications.delete(id);
    publication.resolve(result);
    this.#startIdleTimer();
  }

  /** @returns false if there is no such query */
  #endQuery(id: string, result: QueryResult): boolean {
    const query = this.#queries.get(id);
    if (query === undefined) {
      return false;
    }
    clearTimeout(query.timer);
    this.#queries.delete(id);
    query.resolve(result);
    if (this.#isOpen) {
      this.#parts.socket.send(JSON.stringify(['CLOSE', id]));
    }
    this.#startIdleTimer();
    return true;
  }

  /** Queries are less patient than publications, and do not end them. */
  #endSlowQuery(id: string): void {
    if (this.#publications.size > 0) {
      this.#endQuery(id, { outcome: 'unanswered' });
    } else if (this.#queries.has(id)) {
      this.#cut();
    }
  }

  #startIdleTimer(): void {
    if (this.isIdle) {
      this.#idleTimer = setTimeout(() => this.close(), this.#parts.timing.idleMs).unref();
    }
  }

  #countUnsolicited(bytes: number): void {
    const total = this.#unsolicited;
    total.messages += 1;
    total.bytes += bytes;
    if (total.messages > MAX_UNSOLICITED_MESSAGES || total.bytes > MAX_UNSOLICITED_BYTES) {
      this.#cut();
    }
  }

  /** Without a closing handshake, during which the relay could go on sending. */
  #cut(): void {
    this.#end('connection lost');
    this.#parts.socket.terminate();
  }

  /** Resolves every request with what is known about it. */
  #end(reason: UnreachableRelay): void {
    if (this.#hasEnded) {
      return;
    }
    this.#hasEnded = true;
    clearTimeout(this.#idleTimer);
    for (const { timer, refusedForAuth, resolve } of this.#publications.values()) {
      clearTimeout(timer ?? undefined);
      if (refusedForAuth !== null) {
        resolve({ outcome: 'refused', ...refusedForAuth });
      } else {
        resolve(timer === null ? { outcome: 'unreachable', reason } : { outcome: 'unanswered' });
      }
    }
    for (const { timer, resolve } of this.#queries.values()) {
      clearTimeout(timer);
      resolve({ outcome: 'unanswered' });
    }
    this.#publications.clear();
    this.#queries.clear();
    this.#parts.onEnd();
  }
}
