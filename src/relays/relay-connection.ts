import type { Event, Filter } from 'nostr-tools';
import type { RawData, WebSocket } from 'ws';
import type { EventSigner } from '../auth/event-signer.ts';
import type { EventVerifier } from '../auth/event-verifier.ts';
import type { Clock } from '../domain/clock.ts';
import { type RelayMeaning, readRelayWord } from '../domain/relay-word.ts';
import type { Log } from '../log.ts';
import { byteLength, lookAfter } from '../net/socket-message.ts';
import { Exchanges } from './exchanges.ts';
import { IdleTalk } from './idle-talk.ts';
import type { PublishAnswer } from './publish-answer.ts';
import { type AuthEnd, type AuthOutlook, RelayAuth, SILENCE } from './relay-auth.ts';
import { Publication, Query } from './relay-exchange.ts';
import { parseRelayMessage, type RelayMessage } from './relay-message.ts';
import type { RelayTiming } from './relay-timing.ts';
import { type UnreachableRelay, unreachableRelay } from './unreachable-relay.ts';

/** What may lie in the socket's buffer before one more event is added: a dozen large ones. */
const MAX_BUFFERED_BYTES = 256 * 1024;

/** What a connection is made of. */
export interface RelayConnectionParts {
  /** As the relay knows itself; AUTH names it. */
  url: string;
  socket: WebSocket;
  /** Whose key answers when the relay asks who is there; null: nobody's. */
  signer: EventSigner | null;
  verifyEvent: EventVerifier;
  clock: Clock;
  log: Log;
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
  readonly #log: Log;
  readonly #verifyEvent: EventVerifier;
  readonly #onIdle: () => void;
  readonly #onEnd: () => void;
  readonly #auth: RelayAuth;
  readonly #exchanges = new Exchanges();
  #queries = 0;
  /** Useful ones, so far. */
  #answers = 0;
  readonly #idleTalk = new IdleTalk();
  /** AUTH met with trouble here: whatever comes next has a better chance on another connection. */
  #isSpent = false;
  /** Why nothing more is taken; null while it is. */
  #end: UnreachableRelay | null = null;
  #wasOpened = false;
  #isHandshakeRefused = false;
  #error: unknown = null;

  constructor(parts: RelayConnectionParts) {
    this.#socket = parts.socket;
    this.#timing = parts.timing;
    this.#log = parts.log;
    this.#verifyEvent = parts.verifyEvent;
    this.#onIdle = parts.onIdle;
    this.#onEnd = parts.onEnd;
    this.#auth = new RelayAuth({
      ...parts,
      send: (message) => this.#socket.send(message),
      onSettled: (end) => this.#wakeWaiting(end),
    });
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    this.#listen(closed.resolve);
  }

  /** Whether more can be asked on it. */
  get isUsable(): boolean {
    const { readyState, CONNECTING, OPEN } = this.#socket;
    const isThere = readyState === CONNECTING || readyState === OPEN;
    return isThere && this.#end === null && !this.#isSpent;
  }

  /**
   * Publishes an event, after those before it; only while {@link isUsable}. An event that is on its way
   * already is not sent twice.
   */
  publish(event: { id: string; text: string }): Promise<PublishAnswer> {
    const known = this.#exchanges.publication(event.id);
    if (known !== undefined) {
      return known.answer;
    }
    const publication = new Publication(event);
    publication.timer = lookAfter(this.#timing.sendTimeoutMs, () => this.#leaveUnsent(publication));
    this.#exchanges.add(publication);
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
    this.#exchanges.add(query);
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
    try {
      const message = isBinary ? null : parseRelayMessage(String(data));
      if (message === null || !this.#take(message)) {
        this.#bearIdleTalk(byteLength(data));
        return;
      }
      this.#answers += 1;
      this.#idleTalk.forgive();
      this.#goOn();
    } catch (error) {
      // A bug of ours. A stranger has found it, and what is thrown here would end the process.
      this.#log.error({ err: error }, 'what a relay said could not be dealt with');
      this.#cut();
    }
  }

  /** Takes what the relay says; false where it answers nothing. */
  #take(message: RelayMessage): boolean {
    switch (message.kind) {
      case 'OK':
        return this.#auth.takeAnswer(message) || this.#takeOk(message);
      case 'AUTH':
        return this.#auth.takeChallenge(message.challenge);
      case 'EVENT':
      case 'EOSE':
      case 'CLOSED':
        return this.#takeForQuery(message);
    }
  }

  #takeOk(ok: RelayMessage & { kind: 'OK' }): boolean {
    const publication = this.#exchanges.sentPublication(ok.id);
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
    publication.refusal = { refusal: meaning, word };
    this.#takeRefusal(publication, meaning);
    return true;
  }

  #takeForQuery(message: RelayMessage & { kind: 'EVENT' | 'EOSE' | 'CLOSED' }): boolean {
    const query = this.#exchanges.sentQuery(message.subscription);
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
        this.#takeRefusal(query, readRelayWord(message.message).meaning);
        return true;
    }
  }

  /** Sends once more, now or when AUTH is granted, what was turned away for it; ends all else. */
  #takeRefusal(exchange: Publication | Query, meaning: RelayMeaning): void {
    const outlook = this.#outlook(exchange, meaning);
    switch (outlook) {
      case 'now':
        this.#sendAgain(exchange);
        break;
      case 'later':
        exchange.isWaiting = true;
        break;
      case 'never':
        this.#exchanges.remove(exchange);
        exchange.turnAway(null);
        break;
      default:
        this.#exchanges.remove(exchange);
        exchange.turnAway(outlook);
    }
  }

  #outlook(exchange: Publication | Query, meaning: RelayMeaning): AuthOutlook {
    const isForAuth = meaning === 'auth_required' || meaning === 'restricted';
    return isForAuth && !exchange.wasSentAgain
      ? this.#auth.outlook(exchange.sentAfter.grants, meaning === 'auth_required')
      : 'never';
  }

  /** AUTH is settled: what waits for it is sent once more, or has its answer. */
  #wakeWaiting(end: AuthEnd): void {
    this.#isSpent ||= typeof end === 'object' && this.#auth.isAsked;
    for (const exchange of this.#exchanges.waiting) {
      if (end === 'granted') {
        this.#sendAgain(exchange);
      } else {
        this.#exchanges.remove(exchange);
        exchange.turnAway(end === 'refused' ? null : end);
      }
    }
    this.#goOn();
  }

  #sendAgain(exchange: Publication | Query): void {
    exchange.wasSentAgain = true;
    this.#send(exchange);
  }

  #endPublication(publication: Publication, answer: PublishAnswer): void {
    this.#exchanges.remove(publication);
    publication.settle(answer);
  }

  /** Ends a query that the relay still thinks of. */
  #endQuery(query: Query, end: () => void): void {
    this.#exchanges.remove(query);
    this.#socket.send(JSON.stringify(['CLOSE', query.id]));
    end();
  }

  #leavePublication(publication: Publication): void {
    if (!this.#exchanges.remove(publication)) {
      return;
    }
    if (publication.isWaiting) {
      publication.turnAway(SILENCE);
    } else {
      publication.leave();
    }
    if (this.#answers === publication.sentAfter.answers) {
      this.#cut();
    }
    this.#goOn();
  }

  /** It reads nothing: whatever it answers, what waits to be sent would wait for ever. */
  #leaveUnsent(publication: Publication): void {
    if (this.#exchanges.isUnsent(publication)) {
      this.#cut();
    }
  }

  /** Who asks may have little patience: that alone does not end what others wait for. */
  #leaveQuery(query: Query): void {
    if (this.#exchanges.sentQuery(query.id) === undefined) {
      this.#exchanges.remove(query);
      query.leave();
    } else {
      this.#endQuery(query, () => query.leave());
      if (this.#answers === query.sentAfter.answers && this.#exchanges.isEmpty) {
        this.#cut();
      }
    }
    this.#goOn();
  }

  /** Something has ended, which makes room. */
  #goOn(): void {
    this.#sendMore();
    if (this.#isSpent && this.#exchanges.isEmpty) {
      this.close();
    } else if (this.isUsable && this.#exchanges.isEmpty) {
      this.#onIdle();
    }
  }

  #sendMore(): void {
    for (let next = this.#next(); next !== null; next = this.#next()) {
      this.#begin(next);
    }
  }

  #next(): Publication | Query | null {
    const hasRoom = this.#isOpen && this.#socket.bufferedAmount <= MAX_BUFFERED_BYTES;
    return hasRoom ? this.#exchanges.next() : null;
  }

  #begin(exchange: Publication | Query): void {
    if (exchange instanceof Publication) {
      clearTimeout(exchange.timer);
      exchange.timer = lookAfter(this.#timing.answerTimeoutMs, () =>
        this.#leavePublication(exchange),
      );
    }
    this.#send(exchange);
  }

  #send(exchange: Publication | Query): void {
    exchange.isWaiting = false;
    exchange.sentAfter = { answers: this.#answers, grants: this.#auth.grants };
    // Once it has left the buffer there may be room for more.
    this.#socket.send(exchange.message, () => this.#sendMore());
  }

  /** Counts what answers nothing. */
  #bearIdleTalk(bytes: number): void {
    if (!this.#idleTalk.isBearable(bytes) && this.#isOpen) {
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
    this.#exchanges.end(reason);
    this.#onEnd();
  }
}
