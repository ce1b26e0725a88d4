import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type Event, type Filter, matchFilter } from 'nostr-tools';
import { ClientAuth } from 'nostr-tools/kinds';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Clock, toUnixSeconds } from '../../src/clock.ts';
import { type EventVerifier, loadEventVerifier } from '../../src/nostr/events.ts';
import { normaliseRelayUrl } from '../../src/zaps/zap-request.ts';

/** How a relay behaves. */
export interface TestRelaySwitches {
  /** `silent`: handshakes get no response; a number: the HTTP status of the response. */
  handshake: 'open' | 'silent' | number;
  rejectionMessage: string | null;
  /** Further events of a connection are rejected with `rate-limited:`. */
  eventsPerMinute: number | null;
  /** When the relay requires AUTH (NIP-42). */
  auth: 'none' | 'at_connect' | 'at_first_message';
  eventHandling: 'answer' | 'ignore' | 'hang_up' | 'store_and_ignore';
  /** How queries are handled; other values are the message of a CLOSED. */
  queryHandling: 'answer' | 'ignore' | `${string}:${string}`;
}

const DEFAULT_SWITCHES: Readonly<TestRelaySwitches> = {
  handshake: 'open',
  rejectionMessage: null,
  eventsPerMinute: null,
  auth: 'none',
  eventHandling: 'answer',
  queryHandling: 'answer',
};

const MINUTE_MS = 60_000;

/** How far the time of an AUTH may be from the relay's own (NIP-42: "~10 minutes"). */
const AUTH_WINDOW_SECONDS = 600;

/** A connected client. */
interface RelayClient {
  socket: WebSocket;
  /** The URL that AUTH events must contain: each path is a separate relay. */
  url: string | null;
  challenge: string;
  /** Whether the challenge was sent. */
  isChallengeSent: boolean;
  isAuthenticated: boolean;
  /** Times of the client's events of the last minute. */
  eventTimes: number[];
  /** Resolves when all responses so far are sent. */
  responsesSent: Promise<unknown>;
}

/**
 * A Nostr relay for tests (NIP-01, NIP-42), which checks ids and signatures. It keeps its events in
 * memory, also across {@link stop} and {@link restart}.
 */
export class TestRelay {
  /** Without a trailing slash, as {@link normaliseRelayUrl} writes it. */
  readonly url: string;
  /** May be changed at any time. */
  readonly switches: TestRelaySwitches;
  readonly events = new Map<string, Event>();
  /** How often each event was received, by id. */
  readonly receiveCounts = new Map<string, number>();
  readonly authEvents: Event[] = [];
  /** TCP connections. */
  readonly connections = { opened: 0, open: 0, mostOpen: 0 };

  readonly #changes = new EventEmitter().setMaxListeners(0);
  readonly #verifyEvent: EventVerifier;
  readonly #now: Clock;
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  #server: Server;
  /** Pending while responses are held. */
  #responsesReleased: Promise<void> = Promise.resolve();

  /** Starts a relay; it listens when this resolves. */
  static async start(
    options: Partial<TestRelaySwitches> & { port?: number; now?: Clock } = {},
  ): Promise<TestRelay> {
    const { port = 0, now = Date.now, ...switches } = options;
    const server = createServer();
    await listen(server, port);
    return new TestRelay({ server, now, switches, verifyEvent: await loadEventVerifier() });
  }

  private constructor(parts: {
    server: Server;
    now: Clock;
    switches: Partial<TestRelaySwitches>;
    verifyEvent: EventVerifier;
  }) {
    this.#server = parts.server;
    this.#now = parts.now;
    this.#verifyEvent = parts.verifyEvent;
    this.#port = (parts.server.address() as AddressInfo).port;
    this.url = `ws://127.0.0.1:${this.#port}`;
    this.switches = { ...DEFAULT_SWITCHES, ...parts.switches };
    this.#serve(parts.server);
  }

  /** Resolves when this many events are stored, or when the condition holds. */
  async waitForEvents(condition: number | (() => boolean)): Promise<void> {
    const holds = typeof condition === 'number' ? () => this.events.size >= condition : condition;
    while (!holds()) {
      await once(this.#changes, 'change');
    }
  }

  /** Holds all responses until the returned function is called. */
  holdResponses(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#responsesReleased = promise;
    return resolve;
  }

  /** Stores an event for later queries; open subscriptions do not receive it. */
  store(event: Event): void {
    this.events.set(event.id, event);
    this.#changes.emit('change');
  }

  /** Destroys every connection and rejects new ones. */
  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await closed;
  }

  /** Listens on the same port again. */
  async restart(): Promise<void> {
    this.#server = createServer();
    await listen(this.#server, this.#port);
    this.#serve(this.#server);
  }

  async close(): Promise<void> {
    if (this.#server.listening) {
      await this.stop();
    }
  }

  #serve(server: Server): void {
    server.on('connection', (socket) => this.#track(socket));
    const acceptor = new WebSocketServer({ noServer: true, maxPayload: 1024 * 1024 });
    server.on('upgrade', (request, socket, head) => {
      const { handshake } = this.switches;
      if (handshake === 'open') {
        acceptor.handleUpgrade(request, socket, head, (opened) =>
          this.#acceptClient(opened, normaliseUrl(`${this.url}${request.url}`)),
        );
      } else if (handshake === 'silent') {
        // Detects that the client disconnected.
        socket.resume().once('end', () => socket.end());
      } else {
        socket.end(
          `HTTP/1.1 ${handshake} No\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n`,
        );
      }
    });
  }

  #track(socket: Socket): void {
    const { connections } = this;
    connections.opened += 1;
    connections.open += 1;
    connections.mostOpen = Math.max(connections.mostOpen, connections.open);
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      connections.open -= 1;
      this.#sockets.delete(socket);
      this.#changes.emit('change');
    });
    this.#changes.emit('change');
  }

  #acceptClient(socket: WebSocket, url: string | null): void {
    const peer: RelayClient = {
      socket,
      url,
      challenge: randomBytes(16).toString('hex'),
      isChallengeSent: false,
      isAuthenticated: false,
      eventTimes: [],
      responsesSent: Promise.resolve(),
    };
    socket.on('error', () => undefined);
    socket.on('message', (data) => {
      if (socket.readyState === socket.OPEN) {
        this.#handleMessage(peer, String(data));
        this.#changes.emit('change');
      }
    });
    if (this.switches.auth === 'at_connect') {
      sendChallenge(peer);
    }
  }

  #handleMessage(peer: RelayClient, text: string): void {
    const [kind, subject, ...rest] = parseMessage(text);
    if (kind === 'EVENT') {
      this.#handleEvent(peer, subject as Event);
    } else if (kind === 'AUTH') {
      const event = subject as Event;
      this.#respond(peer, [['OK', event.id, ...this.#handleAuth(peer, event)]]);
    } else if (kind === 'REQ') {
      this.#respond(peer, this.#handleQuery(peer, String(subject), rest as Filter[]));
    } else if (kind !== 'CLOSE') {
      this.#respond(peer, [['NOTICE', 'unknown message']]);
    }
  }

  /** Sends responses in order, unless they are held. */
  #respond(peer: RelayClient, messages: readonly unknown[][]): void {
    peer.responsesSent = Promise.all([peer.responsesSent, this.#responsesReleased]).then(() => {
      for (const message of messages) {
        send(peer.socket, message);
      }
    });
  }

  #handleEvent(peer: RelayClient, event: Event): void {
    this.receiveCounts.set(event.id, (this.receiveCounts.get(event.id) ?? 0) + 1);
    const refusal = this.#rejectionOf(peer, event);
    if (refusal !== null) {
      this.#respond(peer, [['OK', event.id, false, refusal]]);
      return;
    }
    const { eventHandling: eventFate } = this.switches;
    const isKnown = this.events.has(event.id);
    if (!isKnown && eventFate !== 'ignore' && eventFate !== 'hang_up') {
      this.store(event);
    }
    if (eventFate === 'answer') {
      const word = isKnown ? 'duplicate: already have this event' : '';
      this.#respond(peer, [['OK', event.id, true, word]]);
    }
    if (eventFate === 'hang_up') {
      peer.socket.terminate();
    }
  }

  #rejectionOf(peer: RelayClient, event: Event): string | null {
    if (!this.#verifyEvent(event)) {
      return 'invalid: bad id or signature';
    }
    if (this.#lacksAuth(peer)) {
      return 'auth-required: members only';
    }
    if (this.#isRateLimited(peer)) {
      return 'rate-limited: slow down there';
    }
    return this.switches.rejectionMessage;
  }

  #handleAuth(peer: RelayClient, event: Event): [boolean, string] {
    this.authEvents.push(event);
    const tag = (name: string) => event.tags.find(([first]) => first === name)?.[1];
    const isGood =
      event.kind === ClientAuth &&
      tag('challenge') === peer.challenge &&
      normaliseUrl(tag('relay') ?? '') === peer.url &&
      Math.abs(event.created_at - toUnixSeconds(this.#now())) <= AUTH_WINDOW_SECONDS &&
      this.#verifyEvent(event);
    if (!isGood) {
      return [false, 'invalid: wrong AUTH event'];
    }
    peer.isAuthenticated = true;
    return [true, ''];
  }

  #handleQuery(peer: RelayClient, id: string, filters: Filter[]): unknown[][] {
    const { queryHandling: queryFate } = this.switches;
    if (this.#lacksAuth(peer)) {
      return [['CLOSED', id, 'auth-required: members only']];
    }
    if (queryFate === 'ignore') {
      return [];
    }
    if (queryFate !== 'answer') {
      return [['CLOSED', id, queryFate]];
    }
    const found = new Map(
      filters.flatMap((filter) => this.#queryEvents(filter)).map((event) => [event.id, event]),
    );
    return [...found.values()].map((event) => ['EVENT', id, event]).concat([['EOSE', id]]);
  }

  /** The newest first. */
  #queryEvents(filter: Filter): Event[] {
    return [...this.events.values()]
      .filter((event) => matchFilter(filter, event))
      .toSorted((a, b) => b.created_at - a.created_at || (a.id < b.id ? -1 : 1))
      .slice(0, filter.limit);
  }

  /** Sends the challenge if necessary. */
  #lacksAuth(peer: RelayClient): boolean {
    const isLacking = this.switches.auth !== 'none' && !peer.isAuthenticated;
    if (isLacking) {
      sendChallenge(peer);
    }
    return isLacking;
  }

  #isRateLimited(peer: RelayClient): boolean {
    const { eventsPerMinute } = this.switches;
    if (eventsPerMinute === null) {
      return false;
    }
    const now = this.#now();
    peer.eventTimes = peer.eventTimes.filter((time) => time > now - MINUTE_MS);
    if (peer.eventTimes.length >= eventsPerMinute) {
      return true;
    }
    peer.eventTimes.push(now);
    return false;
  }
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

/** Returns an empty list if the text is not a message. */
function parseMessage(text: string): unknown[] {
  try {
    const message: unknown = JSON.parse(text);
    return Array.isArray(message) ? message : [];
  } catch {
    return [];
  }
}

function send(socket: WebSocket, message: unknown): void {
  socket.send(JSON.stringify(message));
}

function normaliseUrl(url: string): string | null {
  return normaliseRelayUrl(url, { allowPrivateNetworks: true });
}

function sendChallenge(peer: RelayClient): void {
  if (!peer.isChallengeSent) {
    peer.isChallengeSent = true;
    send(peer.socket, ['AUTH', peer.challenge]);
  }
}
