import type { Event, Filter } from 'nostr-tools';
import { matchFilter } from 'nostr-tools/filter';
import { makeAuthEvent } from 'nostr-tools/nip42';
import type { RawData, WebSocket } from 'ws';
import { z } from 'zod';
import { type Clock, toUnixSeconds } from '../clock.ts';
import type { Log } from '../log.ts';
import { byteLength, lookAfter } from '../net/guarded-socket.ts';
import { type HandshakeFailure, handshakeFailure } from '../net/unreachable-reason.ts';
import { type EventSigner, type EventVerifier, isListOfTags } from '../nostr/events.ts';
import { parseJson } from '../untrusted-text.ts';
import { type PublishResult, readOk } from './receipt-delivery.ts';

/** How long connections wait, in milliseconds. */
export interface RelayTiming {
  /** From sending an event to its OK. Relays answer within a second. */
  answerTimeoutMs: number;
  /** Before a connection without requests is closed: NATs forget silent connections after a minute. */
  idleMs: number;
}

/** Relays commonly allow 20 subscriptions for each connection. */
const MAX_QUERIES = 10;

/** Messages that answer nothing, between two answers: chatty relays send a NOTICE with each rejection. */
const MAX_UNSOLICITED_MESSAGES = 256;
const MAX_UNSOLICITED_BYTES = 512 * 1024;

/** A relay may ask again when its session ends. */
const MAX_AUTHS = 4;

/** A relay's challenge is signed and sent back; real ones are a few dozen characters. */
const MAX_CHALLENGE_LENGTH = 256;

/**
 * Tags of an event, and their values. The longest relay lists name some hundred relays; verifying the
 * signature of more would cost too much.
 */
const MAX_TAG_PARTS = 2_500;

/** The connection ended, or the relay was too slow. */
interface Unanswered {
  outcome: 'unanswered';
}

/** `none`: the relay has no such event. `unanswered`: it is unknown whether it has one. */
export type QueryResult = { outcome: 'found'; event: Event } | { outcome: 'none' } | Unanswered;

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
}

type Answer = PublishResult | QueryResult;

interface PendingRequest {
  /** Which events answer it; null: an OK does. */
  filter: Filter | null;
  resolve: (answer: Answer) => void;
  timer: NodeJS.Timeout;
}

/**
 * One WebSocket to a relay: publishes events, finds stored ones and answers AUTH (NIP-01, NIP-42). Never
 * throws for anything that the relay does.
 *
 * A relay that leaves an event unanswered, or sends too much that answers nothing, is disconnected.
 */
export class RelayConnection {
  readonly url: string;
  readonly closed: Promise<void>;
  readonly #parts: RelayConnectionParts;
  readonly #socket: WebSocket;
  /** Why the handshake failed; null if it succeeded. */
  readonly #handshake = Promise.withResolvers<HandshakeFailure | null>();
  /** By event id or subscription id. */
  readonly #pending = new Map<string, PendingRequest>();
  #queryCount = 0;
  /** The relay's answer to the latest AUTH event; null before the first one. */
  #auth: Promise<PublishResult> | null = null;
  #authCount = 0;
  #unsolicited = { messages: 0, bytes: 0 };
  #idleTimer: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(parts: RelayConnectionParts) {
    this.#parts = parts;
    this.#socket = parts.socket;
    this.url = parts.url;
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    let socketError: unknown = null;
    this.#socket.once('open', () => this.#handshake.resolve(null));
    this.#socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on('ping', (data) => this.#countUnsolicited(data.byteLength));
    this.#socket.on('pong', (data) => this.#countUnsolicited(data.byteLength));
    this.#socket.on('error', (error) => {
      socketError ??= error;
    });
    this.#socket.once('close', () => {
      this.#end(handshakeFailure(socketError));
      closed.resolve();
    });
  }

  get isUsable(): boolean {
    const { readyState, CONNECTING, OPEN } = this.#socket;
    return !this.#hasEnded && (readyState === CONNECTING || readyState === OPEN);
  }

  /** A request waits for the handshake of every connection that is not open yet. */
  get isIdle(): boolean {
    return this.#isOpen && this.#pending.size === 0;
  }

  /**
   * Publishes an event, whose JSON is sent unchanged. If the relay demands AUTH, sends it again when the
   * relay has granted it.
   */
  async publish({ id, text }: { id: string; text: string }): Promise<PublishResult> {
    const failure = await this.#handshake.promise;
    if (failure !== null) {
      return { outcome: 'unreachable', reason: failure };
    }
    const message = `["EVENT",${text}]`;
    const result = await this.#send(id, message);
    const isAuthRequired = result.outcome === 'refused' && result.refusal === 'auth_required';
    if (!isAuthRequired || this.#auth === null) {
      return result;
    }
    const auth = await this.#auth;
    return auth.outcome === 'accepted' ? this.#send(id, message) : auth;
  }

  /** Finds the newest stored event that matches. The timeout includes the handshake. */
  async query(filter: Filter, timeoutMs: number): Promise<QueryResult> {
    const queries = [...this.#pending.values()].filter((each) => each.filter !== null);
    if (queries.length >= MAX_QUERIES) {
      return { outcome: 'unanswered' };
    }
    const id = `q${this.#queryCount}`;
    this.#queryCount += 1;
    const message = JSON.stringify(['REQ', id, { ...filter, limit: 1 }]);
    return this.#request<QueryResult>(id, message, { filter, timeoutMs });
  }

  close(): void {
    this.#end('closed');
    this.#socket.close();
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  #send(id: string, message: string): Promise<PublishResult> {
    const timeoutMs = this.#parts.timing.answerTimeoutMs;
    return this.#request<PublishResult>(id, message, { filter: null, timeoutMs });
  }

  /** @param id of the event or the subscription, which the answer names */
  async #request<Result extends Answer>(
    id: string,
    message: string,
    { filter, timeoutMs }: { filter: Filter | null; timeoutMs: number },
  ): Promise<Result | Unanswered> {
    if (this.#hasEnded) {
      return { outcome: 'unanswered' };
    }
    const { promise, resolve } = Promise.withResolvers<Result>();
    const timer = lookAfter(timeoutMs, () => this.#endSlow(id));
    clearTimeout(this.#idleTimer);
    this.#pending.set(id, { filter, resolve: resolve as PendingRequest['resolve'], timer });
    if ((await this.#handshake.promise) === null) {
      this.#socket.send(message);
    }
    return promise;
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#hasEnded) {
      return;
    }
    try {
      if (!isBinary && this.#handle(parseJson(String(data)))) {
        this.#unsolicited = { messages: 0, bytes: 0 };
      } else {
        this.#countUnsolicited(byteLength(data));
      }
    } catch (error) {
      // A bug of ours, which a relay must not be able to use to end the process.
      this.#parts.log.error(
        { event: 'relay_message_failed', err: error },
        'could not handle a message of a relay',
      );
      this.#cut();
    }
  }

  /** @returns whether the message answers something */
  #handle(message: unknown): boolean {
    const [kind, id, value, text] = Array.isArray(message) ? (message as unknown[]) : [];
    if (typeof id !== 'string') {
      return false;
    }
    const filter = this.#pending.get(id)?.filter;
    switch (kind) {
      case 'OK':
        return (
          filter === null &&
          typeof value === 'boolean' &&
          this.#answer(id, readOk(value, typeof text === 'string' ? text : ''))
        );
      case 'EVENT': {
        const event = filter ? EVENT.safeParse(value).data : undefined;
        const isWanted =
          event !== undefined && matchFilter(filter ?? {}, event) && this.#parts.verifyEvent(event);
        return isWanted && this.#answer(id, { outcome: 'found', event });
      }
      case 'EOSE':
      case 'CLOSED':
        return !!filter && this.#answer(id, { outcome: kind === 'EOSE' ? 'none' : 'unanswered' });
      case 'AUTH':
        return this.#answerChallenge(id);
      default:
        return false;
    }
  }

  #answerChallenge(challenge: string): boolean {
    const { signer, url, clock } = this.#parts;
    const isValid = challenge !== '' && challenge.length <= MAX_CHALLENGE_LENGTH;
    if (signer === null || !isValid || this.#authCount >= MAX_AUTHS) {
      return false;
    }
    this.#authCount += 1;
    const event = signer.sign({
      ...makeAuthEvent(url, challenge),
      created_at: toUnixSeconds(clock()),
    });
    this.#auth = this.#send(event.id, JSON.stringify(['AUTH', event])).then((result) => {
      // The next connection gets another challenge.
      if (result.outcome === 'refused') {
        this.close();
      }
      return result;
    });
    return true;
  }

  /** @returns false if there is no such request */
  #answer(id: string, answer: Answer): boolean {
    const request = this.#pending.get(id);
    if (request === undefined) {
      return false;
    }
    clearTimeout(request.timer);
    this.#pending.delete(id);
    request.resolve(answer);
    if (request.filter !== null && this.#isOpen) {
      this.#socket.send(JSON.stringify(['CLOSE', id]));
    }
    if (this.#pending.size === 0) {
      this.#idleTimer = setTimeout(() => this.close(), this.#parts.timing.idleMs).unref();
    }
    return true;
  }

  /** Queries are less patient than publications, and do not end them. */
  #endSlow(id: string): void {
    const request = this.#pending.get(id);
    if (request?.filter && this.#pending.size > 1) {
      this.#answer(id, { outcome: 'unanswered' });
    } else if (request !== undefined) {
      this.#cut();
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
    this.#socket.terminate();
  }

  /** @param reason why the relay cannot be reached, if the connection never opened */
  #end(reason: HandshakeFailure): void {
    this.#hasEnded = true;
    this.#handshake.resolve(reason);
    clearTimeout(this.#idleTimer);
    for (const { timer, resolve } of this.#pending.values()) {
      clearTimeout(timer);
      resolve({ outcome: 'unanswered' });
    }
    this.#pending.clear();
  }
}

/** Its id and signature are not checked. */
const EVENT = z.object({
  id: z.hex().length(64),
  pubkey: z.hex().length(64),
  sig: z.hex().length(128),
  kind: z.int(),
  created_at: z.int().nonnegative(),
  tags: z.custom<string[][]>(
    (tags) => isListOfTags(tags) && tags.length + tags.flat().length <= MAX_TAG_PARTS,
  ),
  content: z.string(),
});
