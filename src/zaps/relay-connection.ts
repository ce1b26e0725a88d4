import type { Event, Filter } from 'nostr-tools';
import { matchFilter } from 'nostr-tools/filter';
import { makeAuthEvent } from 'nostr-tools/nip42';
import { z } from 'zod';
import { type Clock, toUnixSeconds } from '../clock.ts';
import type { Logger } from '../log.ts';
import { type GuardedSocket, setTimeoutAfterPendingIo } from '../net/guarded-websocket.ts';
import type { HandshakeFailure } from '../net/request-failure.ts';
import type { EventSigner, EventVerifier } from '../nostr/events.ts';
import { isTagList, tryParseJson } from '../untrusted-text.ts';
import { type PublishResult, parseOkMessage } from './delivery-policy.ts';

export interface RelayTimeouts {
  /** How long to wait for the response to an event. Healthy relays respond within a second. */
  responseTimeoutMs: number;
  /** When to close an idle connection. NAT gateways may drop it silently after a minute. */
  idleTimeoutMs: number;
}

/** Relays commonly allow 20 concurrent queries per connection. */
const MAX_PENDING_QUERIES = 10;

/** A relay may send another challenge when the authenticated session ends. */
const MAX_AUTH_ATTEMPTS = 4;

/** The service signs the challenge and sends it back. Usual challenges have a few dozen characters. */
const MAX_CHALLENGE_LENGTH = 256;

/** The tags and all their values. Relay lists have at most some hundred tags, and verifying more costs too much. */
const MAX_TAG_ELEMENTS = 2_500;

export type RelayQueryResult =
  | { outcome: 'found'; event: Event }
  /** `no_response`: the connection ended, or the request timed out. */
  | { outcome: 'none' | 'no_response' };

export interface RelayConnectionDeps {
  /** Normalised. */
  url: string;
  socket: GuardedSocket;
  /** Signs AUTH events (NIP-42). Null: the service does not authenticate. */
  signer: EventSigner | null;
  verifyEvent: EventVerifier;
  clock: Clock;
  log: Logger;
  timeouts: RelayTimeouts;
}

type RelayResponse = PublishResult | RelayQueryResult;

interface PendingRequest {
  /** The filter of a query; null for a publication. */
  filter: Filter | null;
  resolve: (response: RelayResponse) => void;
  timer: NodeJS.Timeout;
}

/**
 * A WebSocket connection to a relay. Publishes and queries events, and authenticates (NIP-01, NIP-42). Never throws
 * because of the relay. Disconnects if the relay does not respond.
 */
export class RelayConnection {
  readonly url: string;
  readonly closed: Promise<void>;
  readonly #deps: RelayConnectionDeps;
  readonly #socket: GuardedSocket;
  /** Resolves with the reason if the handshake fails, and with null if it succeeds. */
  readonly #handshakeFailure = Promise.withResolvers<HandshakeFailure | null>();
  /** By event id or query id. */
  readonly #pending = new Map<string, PendingRequest>();
  #queryCount = 0;
  /** The result of the latest AUTH event; null before the first one. */
  #authResult: Promise<PublishResult> | null = null;
  #authAttempts = 0;
  #idleTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(deps: RelayConnectionDeps) {
    this.#deps = deps;
    this.#socket = deps.socket;
    this.url = deps.url;
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    this.#socket.once('open', () => this.#handshakeFailure.resolve(null));
    this.#socket.on('message', (text) => this.#onMessage(text));
    this.#socket.once('close', ({ reason }) => {
      this.#markClosed(reason);
      closed.resolve();
    });
  }

  get isUsable(): boolean {
    return !this.#isClosed && this.#socket.state !== 'closed';
  }

  /** Whether the connection is open and no request is pending. During the handshake, a request waits for it. */
  get isIdle(): boolean {
    return this.#isOpen && this.#pending.size === 0;
  }

  /** Publishes an event. If the relay requires authentication, sends the event again after it. */
  async publish({ id, eventJson }: { id: string; eventJson: string }): Promise<PublishResult> {
    const failure = await this.#handshakeFailure.promise;
    if (failure !== null) {
      return { outcome: 'unreachable', reason: failure };
    }
    const message = `["EVENT",${eventJson}]`;
    const result = await this.#sendAndWaitForOk(id, message);
    const isAuthRequired = result.outcome === 'rejected' && result.rejection === 'auth_required';
    if (!isAuthRequired || this.#authResult === null) {
      return result;
    }
    const auth = await this.#authResult;
    return auth.outcome === 'accepted' ? this.#sendAndWaitForOk(id, message) : auth;
  }

  /** Finds the newest event at the relay that matches. */
  async query(filter: Filter, timeoutMs: number): Promise<RelayQueryResult> {
    const queries = [...this.#pending.values()].filter((request) => request.filter !== null);
    if (queries.length >= MAX_PENDING_QUERIES) {
      return { outcome: 'no_response' };
    }
    const id = `q${this.#queryCount}`;
    this.#queryCount += 1;
    const message = JSON.stringify(['REQ', id, { ...filter, limit: 1 }]);
    return this.#sendRequest<RelayQueryResult>(id, message, filter, timeoutMs);
  }

  close(): void {
    this.#markClosed('closed');
    this.#socket.close();
  }

  get #isOpen(): boolean {
    return this.#socket.state === 'open';
  }

  #sendAndWaitForOk(id: string, message: string): Promise<PublishResult> {
    const { responseTimeoutMs } = this.#deps.timeouts;
    return this.#sendRequest<PublishResult>(id, message, null, responseTimeoutMs);
  }

  /** @param id the event id or query id, which the response contains */
  async #sendRequest<Result extends RelayResponse>(
    id: string,
    message: string,
    filter: Filter | null,
    timeoutMs: number,
  ): Promise<Result | { outcome: 'no_response' }> {
    if (this.#isClosed) {
      return { outcome: 'no_response' };
    }
    const { promise, resolve } = Promise.withResolvers<Result>();
    const timer = setTimeoutAfterPendingIo(timeoutMs, () => this.#onRequestTimeout(id));
    clearTimeout(this.#idleTimer);
    this.#pending.set(id, { filter, resolve: resolve as PendingRequest['resolve'], timer });
    if ((await this.#handshakeFailure.promise) === null) {
      this.#socket.send(message);
    }
    return promise;
  }

  #onMessage(text: string): void {
    if (this.#isClosed) {
      return;
    }
    try {
      this.#handleMessage(tryParseJson(text));
    } catch (error) {
      // This is a bug. It must not enable a relay to crash the process.
      this.#deps.log.error(
        { event: 'relay_message_failed', err: error },
        'bug: cannot handle a relay message; closing the connection',
      );
      this.#terminate();
    }
  }

  #handleMessage(message: unknown): void {
    const [kind, id, value, text] = Array.isArray(message) ? (message as unknown[]) : [];
    if (typeof id !== 'string') {
      return;
    }
    const request = this.#pending.get(id);
    if (kind === 'AUTH') {
      this.#authenticate(id);
    } else if (kind === 'OK' && request?.filter === null && typeof value === 'boolean') {
      this.#resolveRequest(id, parseOkMessage(value, typeof text === 'string' ? text : ''));
    } else if (kind === 'EVENT' && request?.filter) {
      this.#resolveRequest(id, this.#verifyFoundEvent(value, request.filter));
    } else if (kind === 'EOSE' && request?.filter) {
      this.#resolveRequest(id, { outcome: 'none' });
    } else if (kind === 'CLOSED' && request?.filter) {
      this.#resolveRequest(id, { outcome: 'no_response' });
    }
  }

  /** An invalid event ends the query, because verifying events is expensive. */
  #verifyFoundEvent(value: unknown, filter: Filter): RelayQueryResult {
    const event = eventSchema.safeParse(value).data;
    return event !== undefined && matchFilter(filter, event) && this.#deps.verifyEvent(event)
      ? { outcome: 'found', event }
      : { outcome: 'none' };
  }

  #authenticate(challenge: string): void {
    const { signer, url, clock } = this.#deps;
    const isValid = challenge !== '' && challenge.length <= MAX_CHALLENGE_LENGTH;
    if (signer === null || !isValid || this.#authAttempts >= MAX_AUTH_ATTEMPTS) {
      return;
    }
    this.#authAttempts += 1;
    const created_at = toUnixSeconds(clock());
    const event = signer.sign({ ...makeAuthEvent(url, challenge), created_at });
    this.#authResult = this.#sendAndWaitForOk(event.id, JSON.stringify(['AUTH', event]));
    void this.#authResult.then(({ outcome }) => {
      // The relay sends another challenge on the next connection.
      if (outcome === 'rejected') {
        this.close();
      }
    });
  }

  #resolveRequest(id: string, response: RelayResponse): void {
    const request = this.#pending.get(id);
    if (request === undefined) {
      return;
    }
    clearTimeout(request.timer);
    this.#pending.delete(id);
    request.resolve(response);
    if (request.filter !== null && this.#isOpen) {
      this.#socket.send(JSON.stringify(['CLOSE', id]));
    }
    if (this.#pending.size === 0) {
      this.#idleTimer = setTimeout(() => this.close(), this.#deps.timeouts.idleTimeoutMs).unref();
    }
  }

  /**
   * Disconnects, because the relay is probably dead. After the short timeout of a query, the relay may still respond to
   * the other pending requests: then only the query ends.
   */
  #onRequestTimeout(id: string): void {
    const request = this.#pending.get(id);
    if (request?.filter && this.#pending.size > 1) {
      this.#resolveRequest(id, { outcome: 'no_response' });
    } else if (request !== undefined) {
      this.#terminate();
    }
  }

  /** Disconnects without the closing handshake, during which the relay could continue to send. */
  #terminate(): void {
    this.#markClosed('connection lost');
    this.#socket.terminate();
  }

  /**
   * Ends the handshake and all pending requests.
   *
   * @param reason of a failed handshake; pending requests get `no_response`
   */
  #markClosed(reason: HandshakeFailure): void {
    this.#isClosed = true;
    this.#handshakeFailure.resolve(reason);
    clearTimeout(this.#idleTimer);
    for (const { timer, resolve } of this.#pending.values()) {
      clearTimeout(timer);
      resolve({ outcome: 'no_response' });
    }
    this.#pending.clear();
  }
}

/** Checks neither the id nor the signature. */
const eventSchema = z.object({
  id: z.hex().length(64),
  pubkey: z.hex().length(64),
  sig: z.hex().length(128),
  kind: z.int(),
  created_at: z.int().nonnegative(),
  tags: z.custom<string[][]>(
    (tags) => isTagList(tags) && tags.length + tags.flat().length <= MAX_TAG_ELEMENTS,
  ),
  content: z.string(),
});
