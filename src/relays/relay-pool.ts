import type { Event, Filter } from 'nostr-tools';
import { matchFilter } from 'nostr-tools/filter';
import { makeAuthEvent } from 'nostr-tools/nip42';
import { type Clock, toUnixSeconds } from '../clock.ts';
import type { Logger } from '../log.ts';
import {
  type GuardedSocket,
  setTimeoutAfterPendingIo,
  type WebSocketConnector,
} from '../net/guarded-websocket.ts';
import type { HandshakeFailure } from '../net/request-failure.ts';
import { nostrEventSchema } from '../nostr/event-schema.ts';
import type { EventSigner, EventVerifier } from '../nostr/events.ts';
import { tryParseJson } from '../untrusted-text.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { RELAY_CONNECTION_LIMITS } from './limits.ts';
import { type PublishResult, parseOkMessage } from './publish-result.ts';

export interface RelayContext {
  /** Signs AUTH events (NIP-42). Null: the service does not authenticate. */
  signer: EventSigner | null;
  verifyEvent: EventVerifier;
  clock: Clock;
  log: Logger;
  responseTimeoutMs?: number | undefined;
  idleTimeoutMs?: number | undefined;
}

export type RelayQueryResult =
  | { outcome: 'found'; event: Event }
  /** `no_response`: the connection ended, or the request timed out. */
  | { outcome: 'none' | 'no_response' };

/** Shares one connection per relay URL. If there are too many, closes the least recently used one that is idle. */
export class RelayPool {
  readonly #connect: WebSocketConnector;
  readonly #context: RelayContext;
  /** The most recently used connection is last. */
  readonly #connections = new Set<RelayConnection>();
  #isClosed = false;

  constructor(connect: WebSocketConnector, context: RelayContext) {
    this.#connect = connect;
    this.#context = context;
  }

  async publish(url: string, event: { id: string; eventJson: string }): Promise<PublishResult> {
    return this.#isClosed
      ? { outcome: 'unreachable', message: 'closed' }
      : this.#getConnection(url).publish(event);
  }

  /** Finds the newest event that matches a filter. @param timeoutMs includes the handshake */
  async query(url: string, filter: Filter, timeoutMs: number): Promise<RelayQueryResult> {
    return this.#isClosed
      ? { outcome: 'no_response' }
      : this.#getConnection(url).query(filter, timeoutMs);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all(connections.map(({ closed }) => closed));
  }

  #getConnection(url: string): RelayConnection {
    const usable = [...this.#connections].filter(({ isUsable }) => isUsable);
    const connection = usable.find((candidate) => candidate.url === url) ?? this.#open(url, usable);
    // Moves the connection to the end.
    this.#connections.delete(connection);
    this.#connections.add(connection);
    return connection;
  }

  #open(url: string, usable: readonly RelayConnection[]): RelayConnection {
    const { host } = new URL(url);
    const ofHost = usable.filter((connection) => new URL(connection.url).host === host);
    if (ofHost.length >= RELAY_CONNECTION_LIMITS.maxPerHost) {
      ofHost.find(({ isIdle }) => isIdle)?.close();
    } else if (usable.length >= RELAY_CONNECTION_LIMITS.max) {
      usable.find(({ isIdle }) => isIdle)?.close();
    }
    const connection = new RelayConnection(url, this.#connect(url), this.#context);
    void connection.closed.then(() => this.#connections.delete(connection));
    return connection;
  }
}

interface PendingRequest {
  /** The filter of a query; null for a publication. */
  filter: Filter | null;
  resolve: (response: PublishResult | RelayQueryResult) => void;
  timer: NodeJS.Timeout;
}

/** Publishes and queries events (NIP-01). Authenticates if the relay asks for it (NIP-42). Ends if it does not respond. */
class RelayConnection {
  readonly url: string;
  readonly closed: Promise<void>;
  readonly #context: RelayContext;
  readonly #socket: GuardedSocket;
  /** Resolved after a failed handshake, too. */
  readonly #handshakeEnded = Promise.withResolvers<void>();
  readonly #pending = new Map<string, PendingRequest>();
  #queryCount = 0;
  /** Null until the relay has sent a challenge. */
  #authResult: Promise<PublishResult> | null = null;
  /** Resolved when the connection ends, too. */
  readonly #challenged = Promise.withResolvers<void>();
  #idleTimer: NodeJS.Timeout | undefined;
  #hasOpened = false;
  /** Null while the connection can be used. */
  #closeReason: HandshakeFailure | null = null;

  constructor(url: string, socket: GuardedSocket, context: RelayContext) {
    this.url = url;
    this.#socket = socket;
    this.#context = context;
    socket.once('open', () => {
      this.#hasOpened = true;
      this.#handshakeEnded.resolve();
    });
    socket.on('message', (text) => this.#onMessage(text));
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    socket.once('close', ({ reason }) => {
      this.#end(reason);
      closed.resolve();
    });
  }

  get isUsable(): boolean {
    return this.#closeReason === null && this.#socket.state !== 'closed';
  }

  get isIdle(): boolean {
    return this.#socket.state === 'open' && this.#pending.size === 0;
  }

  async publish({ id, eventJson }: { id: string; eventJson: string }): Promise<PublishResult> {
    // The timeout of the response starts after the handshake.
    await this.#handshakeEnded.promise;
    const message = `["EVENT",${eventJson}]`;
    const firstResult = await this.#sendAndWaitForOk(id, message);
    if (firstResult.outcome !== 'auth_required') {
      return firstResult;
    }
    // Some relays send their challenge only after this response.
    await waitAtMost(RELAY_CONNECTION_LIMITS.challengeTimeoutMs, this.#challenged.promise);
    const authResult = await this.#authResult;
    if (authResult === null) {
      return firstResult;
    }
    if (authResult.outcome !== 'accepted') {
      return authResult;
    }
    const secondResult = await this.#sendAndWaitForOk(id, message);
    if (secondResult.outcome === 'auth_required') {
      // The authenticated session has ended. Only a new connection authenticates again.
      this.close();
    }
    return secondResult;
  }

  async query(filter: Filter, timeoutMs: number): Promise<RelayQueryResult> {
    const pendingQueries = [...this.#pending.values()].filter((request) => request.filter !== null);
    if (pendingQueries.length >= RELAY_CONNECTION_LIMITS.maxPendingQueries) {
      return { outcome: 'no_response' };
    }
    const id = `q${this.#queryCount}`;
    this.#queryCount += 1;
    const message = JSON.stringify(['REQ', id, { ...filter, limit: 1 }]);
    const result = await this.#sendRequest(id, message, filter, timeoutMs);
    return result.outcome === 'found' || result.outcome === 'none'
      ? result
      : { outcome: 'no_response' };
  }

  close(): void {
    this.#end('closed');
    this.#socket.close();
  }

  #sendAndWaitForOk(id: string, message: string): Promise<PublishResult> {
    const { responseTimeoutMs = RELAY_CONNECTION_LIMITS.responseTimeoutMs } = this.#context;
    return this.#sendRequest(id, message, null, responseTimeoutMs) as Promise<PublishResult>;
  }

  #sendRequest(id: string, message: string, filter: Filter | null, timeoutMs: number) {
    const { promise, resolve } = Promise.withResolvers<PublishResult | RelayQueryResult>();
    if (this.#closeReason !== null) {
      resolve(this.#createFailure(this.#closeReason));
      return promise;
    }
    clearTimeout(this.#idleTimer);
    const timer = setTimeoutAfterPendingIo(timeoutMs, () => this.#onTimeout(id));
    this.#pending.set(id, { filter, resolve, timer });
    void this.#handshakeEnded.promise.then(() => this.#socket.send(message));
    return promise;
  }

  #onMessage(text: string): void {
    if (this.#closeReason !== null) {
      return;
    }
    try {
      this.#handleMessage(tryParseJson(text));
    } catch (error) {
      this.#context.log.error(
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
      const challenge = id;
      this.#authenticate(challenge);
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

  /** An invalid event ends the query without a result, because verifying further events is expensive. */
  #verifyFoundEvent(value: unknown, filter: Filter): RelayQueryResult {
    const event = nostrEventSchema.safeParse(value).data;
    const isValid =
      event !== undefined &&
      event.tags.length + event.tags.flat().length <= RELAY_CONNECTION_LIMITS.maxTagElements &&
      matchFilter(filter, event) &&
      this.#context.verifyEvent(event);
    return isValid ? { outcome: 'found', event } : { outcome: 'none' };
  }

  /** Authenticates once per connection. If the relay does not accept that, closes the connection. */
  #authenticate(challenge: string): void {
    const { signer, clock } = this.#context;
    const isValid =
      challenge !== '' && challenge.length <= RELAY_CONNECTION_LIMITS.maxChallengeLength;
    if (signer === null || !isValid || this.#authResult !== null) {
      return;
    }
    const created_at = toUnixSeconds(clock());
    const event = signer.sign({ ...makeAuthEvent(this.url, challenge), created_at });
    this.#authResult = this.#sendAndWaitForOk(event.id, JSON.stringify(['AUTH', event]));
    this.#challenged.resolve();
    void this.#authResult.then(({ outcome }) => {
      if (outcome !== 'accepted') {
        this.close();
      }
    });
  }

  #resolveRequest(id: string, response: PublishResult | RelayQueryResult): void {
    const request = this.#pending.get(id);
    if (request === undefined) {
      return;
    }
    clearTimeout(request.timer);
    this.#pending.delete(id);
    request.resolve(response);
    if (request.filter !== null) {
      this.#socket.send(JSON.stringify(['CLOSE', id]));
    }
    if (this.#pending.size === 0) {
      const { idleTimeoutMs = RELAY_CONNECTION_LIMITS.idleTimeoutMs } = this.#context;
      this.#idleTimer = setTimeout(() => this.close(), idleTimeoutMs).unref();
    }
  }

  /** Disconnects, because the relay is probably dead. A query ends alone if the relay may still respond to others. */
  #onTimeout(id: string): void {
    const request = this.#pending.get(id);
    if (request?.filter && this.#pending.size > 1) {
      this.#resolveRequest(id, { outcome: 'no_response' });
    } else if (request !== undefined) {
      this.#terminate();
    }
  }

  /** Disconnects without the closing handshake, during which the relay could continue to send. */
  #terminate(): void {
    this.#end('connection lost');
    this.#socket.terminate();
  }

  #end(reason: HandshakeFailure): void {
    this.#closeReason ??= reason;
    this.#handshakeEnded.resolve();
    this.#challenged.resolve();
    clearTimeout(this.#idleTimer);
    for (const { timer, resolve } of this.#pending.values()) {
      clearTimeout(timer);
      resolve(this.#createFailure(reason));
    }
    this.#pending.clear();
  }

  #createFailure(reason: HandshakeFailure): PublishResult {
    return this.#hasOpened
      ? { outcome: 'no_response', message: 'no response' }
      : { outcome: 'unreachable', message: reason };
  }
}
