import type { Event, Filter } from 'nostr-tools';
import type { RawData, WebSocket } from 'ws';
import type { EventSigner } from '../auth/event-signer.ts';
import type { EventVerifier } from '../auth/event-verifier.ts';
import type { Clock } from '../domain/clock.ts';
import { type RelayMeaning, readRelayWord } from '../domain/relay-word.ts';
import type { PublishAnswer } from './publish-answer.ts';
import { RelayAuth } from './relay-auth.ts';
import { Publication, Query } from './relay-exchange.ts';
import { parseRelayMessage, type RelayMessage } from './relay-message.ts';
import type { RelayTiming } from './relay-timing.ts';
import { type UnreachableRelay, unreachableRelay } from './unreachable-relay.ts';

/** Events that wait for their OK at a time: at 100 ms there and back, some 600 events a second. */
const MAX_UNANSWERED = 64;

/** Relays allow some twenty subscriptions on a connection; an operator may have others there. */
const MAX_QUERIES = 10;

/** What may lie in the socket's buffer before one more event is added: a dozen large ones. */
const MAX_BUFFERED_BYTES = 256 * 1024;

/**
 * What a relay may say between two useful answers. A NOTICE with each event that is turned away, late
 * answers to everything that waited, and a ping a second come nowhere near.
 */
const MAX_IDLE_MESSAGES = 256;
const MAX_IDLE_BYTES = 512 * 1024;

/** What a connection is made of. */
export interface RelayConnectionParts {
  /** As the relay knows itself; AUTH names it. */
  url: string;
  socket: WebSocket;
  /** Whose key answers when the relay asks who is there; null: nobody's. */
  signer: EventSigner | null;
  verifyEvent: EventVerifier;
  clock: Clock;
  timing: RelayTiming;
  /** Told whenever the last thing that was under way has ended, while the connection stands. */
  onIdle: () => void;
  /** Told once, when the connection takes nothing more: then it is of no use. */
  onEnd: () => void;
}

/**
 * One socket to a relay, from its opening to its end, and what is asked on it: events to be published,
 * queries, AUTH (NIP-01, NIP-42). Whatever the relay does becomes an answer; nothing is thrown.
 *
 * A relay that leaves something unanswered in time and has answered nothing else since is taken for
 * dead, and one that talks without end is not listened to: the connection is cut.
 */
export class RelayConnection {
  /** Resolves once the socket is closed. */
  readonly closed: Promise<void>;
  readonly #socket: WebSocket;
  readonly #timing: RelayTiming;
  readonly #verifyEvent: EventVerifier;
  readonly #onIdle: () => void;
  readonly #onEnd: () => void;
  readonly #auth: RelayAuth;
  /** Not sent yet, the first one first. */
  readonly #unsent = { publications: new Map<string, Publication>(), queries: new Set<Query>() };
  /** Sent, and not ended. By the event's id, and by the subscription's. */
  readonly #sent = {
    publications: new Map<string, Publication>(),
    queries: new Map<string, Query>(),
  };
  #queries = 0;
  /** Useful ones, so far. */
  #answers = 0;
  /** Since the last useful answer. */
  readonly #idleTalk = { messages: 0, bytes: 0 };
  /** Why nothing more is taken; null while it is. */
  #end: UnreachableRelay | null = null;
  #wasOpened = false;
  #isHandshakeRefused = false;
  #error: unknown = null;

  constructor(parts: RelayConnectionParts) {
    this.#socket = parts.socket;
    this.#timing = parts.timing;
    this.#verifyEvent = parts.verifyEvent;
    this.#onIdle = parts.onIdle;
    this.#onEnd = parts.onEnd;
    this.#auth = new RelayAuth({
      ...parts,
      send: (message) => this.#socket.send(message),
      onSettled: (isGranted) => this.#wakeWaiting(isGranted),
    });
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    this.#listen(closed.resolve);
  }

  /** Whether more can be asked on it. */
  get isUsable(): boolean {
    const { readyState, CONNECTING, OPEN } = this.#socket;
    return this.#end === null && (readyState === CONNECTING || readyState === OPEN);
  }

  /**
   * Publishes an event, after those before it; only while {@link isUsable}. An event that is on its way
   * already is not sent twice.
   */
  publish(event: { id: string; text: string }): Promise<PublishAnswer> {
    const known = this.#unsent.publications.get(event.id) ?? this.#sent.publications.get(event.id);
    if (known !== undefined) {
      return known.answer;
    }
    const publication = new Publication(event);
    this.#unsent.publications.set(event.id, publication);
    this.#sendMore();
    return publication.answer;
  }

  /**
   * Asks for stored events; only while {@link isUsable}. Resolves with what came until the relay said
   * that it was all, until the limit, or until the time was over; null where nothing came and the relay
   * did not say so.
   */
  query(filter: Filter, options: { timeoutMs: number; limit: number }): Promise<Event[] | null> {
    this.#queries += 1;
    const query = new Query(`q${this.#queries}`, filter, {
      limit: options.limit,
      verifyEvent: this.#verifyEvent,
    });
    query.timer = lookAfter(options.timeoutMs, () => this.#leaveQuery(query));
    this.#unsent.queries.add(query);
    this.#sendMore();
    return query.answer;
  }

  /** Ends the connection, and with it everything that is under way. */
  close(): void {
    this.#finish('closed');
    // Politely for a moment and then at once (`net/`).
    this.#socket.close();
  }

  get #isOpen(): boolean {
    return this.#end === null && this.#socket.readyState === this.#socket.OPEN;
  }

  get #isIdle(): boolean {
    const underWay = [...Object.values(this.#unsent), ...Object.values(this.#sent)];
    return underWay.every(({ size }) => size === 0);
  }

  get #hasRoom(): boolean {
    return this.#isOpen && this.#socket.bufferedAmount <= MAX_BUFFERED_BYTES;
  }

  #listen(onClosed: () => void): void {
    this.#socket.once('open', () => {
      this.#wasOpened = true;
      this.#sendMore();
    });
    this.#socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on('ping', (data) => this.#bearIdleTalk(data.byteLength));
    this.#socket.on('pong', (data) => this.#bearIdleTalk(data.byteLength));
    this.#socket.on('unexpected-response', () => {
      this.#isHandshakeRefused = true;
      this.#socket.terminate();
    });
    this.#socket.on('error', (error) => {
      this.#error ??= error;
    });
    this.#socket.once('close', () => {
      this.#finish(this.#whyClosed());
      onClosed();
    });
  }

  /** An error after the handshake says no more than that the connection is lost. */
  #whyClosed(): UnreachableRelay {
    if (this.#isHandshakeRefused) {
      return 'handshake refused';
    }
    return this.#wasOpened ? 'connection lost' : unreachableRelay(this.#error);
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (!this.#isOpen) {
      return;
    }
    const message = isBinary ? null : parseRelayMessage(String(data));
    if (message === null || !this.#take(message)) {
      this.#bearIdleTalk(byteLength(data));
      return;
    }
    this.#answers += 1;
    this.#idleTalk.messages = 0;
    this.#idleTalk.bytes = 0;
    this.#goOn();
  }

  /** Takes what the relay says; false where it answers nothing. */
  #take(message: RelayMessage): boolean {
    switch (message.kind) {
      case 'OK':
        return this.#auth.takeAnswer(message.id, message.isAccepted) || this.#takeOk(message);
      case 'AUTH':
        return this.#auth.takeChallenge(message.challenge);
      case 'EVENT':
      case 'EOSE':
      case 'CLOSED':
        return this.#takeForQuery(message);
    }
  }

  #takeOk(ok: RelayMessage & { kind: 'OK' }): boolean {
    const publication = this.#sent.publications.get(ok.id);
    const { meaning, word } = readRelayWord(ok.message);
    if (publication === undefined) {
      return false;
    }
    if (ok.isAccepted || meaning === 'duplicate') {
      this.#endPublication(publication, { outcome: 'accepted', word });
      return true;
    }
    if (publication.isWaiting) {
      return false;
    }
    publication.refusal = { outcome: 'refused', refusal: meaning, word };
    if (!this.#sendAgain(publication, meaning)) {
      this.#endPublication(publication, publication.refusal);
    }
    return true;
  }

  #takeForQuery(message: RelayMessage & { kind: 'EVENT' | 'EOSE' | 'CLOSED' }): boolean {
    const query = this.#sent.queries.get(message.subscription);
    if (query === undefined) {
      return false;
    }
    switch (message.kind) {
      case 'EVENT': {
        const isTaken = query.take(message.event);
        if (query.isFull) {
          this.#endQuery(query, () => query.finish());
        }
        return isTaken;
      }
      case 'EOSE':
        this.#endQuery(query, () => query.finish());
        return true;
      case 'CLOSED':
        if (!this.#sendAgain(query, readRelayWord(message.message).meaning)) {
          this.#sent.queries.delete(query.id);
          query.leave();
        }
        return true;
    }
  }

  /** Sends once more, now or when AUTH is granted, what was turned away for it; false where not. */
  #sendAgain(exchange: Publication | Query, meaning: RelayMeaning): boolean {
    const isForAuth = meaning === 'auth_required' || meaning === 'restricted';
    if (!isForAuth || exchange.wasSentAgain) {
      return false;
    }
    const outlook = this.#auth.outlook(exchange.sentAfter.grants, meaning === 'auth_required');
    switch (outlook) {
      case 'now':
        exchange.wasSentAgain = true;
        this.#send(exchange);
        return true;
      case 'later':
        exchange.isWaiting = true;
        return true;
      case 'never':
        return false;
    }
  }

  /** AUTH is settled: what waits for it is sent once more, or has its answer. */
  #wakeWaiting(isGranted: boolean): void {
    const { publications, queries } = this.#sent;
    for (const exchange of [...publications.values(), ...queries.values()]) {
      if (exchange.isWaiting && isGranted) {
        exchange.wasSentAgain = true;
        this.#send(exchange);
      } else if (exchange.isWaiting) {
        publications.delete(exchange.id);
        queries.delete(exchange.id);
        exchange.leave();
      }
    }
    this.#goOn();
  }

  #endPublication(publication: Publication, answer: PublishAnswer): void {
    this.#sent.publications.delete(publication.id);
    publication.settle(answer);
  }

  /** Ends a query that the relay still thinks of. */
  #endQuery(query: Query, end: () => void): void {
    this.#sent.queries.delete(query.id);
    this.#socket.send(JSON.stringify(['CLOSE', query.id]));
    end();
  }

  #leavePublication(publication: Publication): void {
    if (this.#sent.publications.get(publication.id) === publication) {
      this.#sent.publications.delete(publication.id);
      publication.leave();
      if (this.#answers === publication.sentAfter.answers) {
        this.#cut();
      }
      this.#goOn();
    }
  }

  /** Who asks may have little patience: that alone does not end what others wait for. */
  #leaveQuery(query: Query): void {
    if (this.#unsent.queries.delete(query)) {
      query.leave();
    } else if (this.#sent.queries.has(query.id)) {
      this.#endQuery(query, () => query.leave());
      if (this.#answers === query.sentAfter.answers && this.#isIdle) {
        this.#cut();
      }
    }
    this.#goOn();
  }

  /** Something has ended, which makes room. */
  #goOn(): void {
    this.#sendMore();
    if (this.isUsable && this.#isIdle) {
      this.#onIdle();
    }
  }

  #sendMore(): void {
    const unsent = this.#unsent;
    const sent = this.#sent;
    for (const query of unsent.queries) {
      if (!this.#hasRoom || sent.queries.size >= MAX_QUERIES) {
        break;
      }
      unsent.queries.delete(query);
      sent.queries.set(query.id, query);
      this.#send(query);
    }
    for (const publication of unsent.publications.values()) {
      if (!this.#hasRoom || sent.publications.size >= MAX_UNANSWERED) {
        break;
      }
      unsent.publications.delete(publication.id);
      sent.publications.set(publication.id, publication);
      publication.timer = lookAfter(this.#timing.answerTimeoutMs, () =>
        this.#leavePublication(publication),
      );
      this.#send(publication);
    }
  }

  #send(exchange: Publication | Query): void {
    exchange.isWaiting = false;
    exchange.sentAfter = { answers: this.#answers, grants: this.#auth.grants };
    // Once it has left the buffer there may be room for more.
    this.#socket.send(exchange.message, () => this.#sendMore());
  }

  /** Counts what answers nothing. */
  #bearIdleTalk(bytes: number): void {
    this.#idleTalk.messages += 1;
    this.#idleTalk.bytes += bytes;
    const { messages, bytes: total } = this.#idleTalk;
    if (this.#isOpen && (messages > MAX_IDLE_MESSAGES || total > MAX_IDLE_BYTES)) {
      this.#cut();
    }
  }

  /** Not politely: the other side is dead, or not to be listened to for another moment. */
  #cut(): void {
    this.#finish('connection lost');
    this.#socket.terminate();
  }

  #finish(reason: UnreachableRelay): void {
    if (this.#end !== null) {
      return;
    }
    this.#end = reason;
    this.#auth.end();
    for (const publication of this.#unsent.publications.values()) {
      publication.settle({ outcome: 'unreachable', reason });
    }
    const { publications, queries } = this.#sent;
    for (const exchange of [
      ...publications.values(),
      ...queries.values(),
      ...this.#unsent.queries,
    ]) {
      exchange.leave();
    }
    for (const exchanges of [publications, queries, ...Object.values(this.#unsent)]) {
      exchanges.clear();
    }
    this.#onEnd();
  }
}

/** Looks once time has passed and what lay unread in a busy moment is read. */
function lookAfter(delayMs: number, look: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(look), delayMs).unref();
}

function byteLength(data: RawData): number {
  return Array.isArray(data)
    ? data.reduce((bytes, part) => bytes + part.byteLength, 0)
    : data.byteLength;
}
