import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type Event, type Filter, matchFilter, matchFilters } from 'nostr-tools';
import { ClientAuth, isEphemeralKind } from 'nostr-tools/kinds';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Clock, toUnixSeconds } from '../../../src/clock.ts';
import { type EventVerifier, loadEventVerifier } from '../../../src/nostr/events.ts';
import { normaliseRelayUrl } from '../../../src/relays/relay-url.ts';

export interface FakeNostrRelaySwitches {
  /** WebSocket handshakes succeed (`open`), get no response (`silent`), or are rejected with this HTTP status. */
  handshake: 'open' | 'silent' | number;
  /** If not null, the relay rejects every event with this message. */
  rejectionMessage: string | null;
  /** When the relay sends a challenge (NIP-42). It rejects requests of clients that have not authenticated. */
  auth: 'none' | 'at_connect' | 'at_first_message';
  /** Only `answer` confirms the event. */
  eventHandling: 'answer' | 'ignore' | 'store_and_ignore';
  /** Queries (REQ) get results, get no response, or are rejected: the value is then the message of CLOSED. */
  queryHandling: 'answer' | 'ignore' | `${string}:${string}`;
  /** Many relays keep ephemeral events for a few minutes. */
  storesEphemeralEvents: boolean;
}

const DEFAULT_SWITCHES: Readonly<FakeNostrRelaySwitches> = {
  handshake: 'open',
  rejectionMessage: null,
  auth: 'none',
  eventHandling: 'answer',
  queryHandling: 'answer',
  storesEphemeralEvents: false,
};

interface RelayClient {
  socket: WebSocket;
  /** The client's AUTH event must contain this URL. */
  relayUrl: string | null;
  challenge: string;
  isChallengeSent: boolean;
  isAuthenticated: boolean;
  subscriptions: Map<string, Filter[]>;
  /** Resolves when all responses to messages received so far have been sent. */
  responsesSent: Promise<unknown>;
}

/** A relay (NIP-01, NIP-42) that verifies events. It keeps them in memory, even after {@link stop}. */
export class FakeNostrRelay {
  readonly url: string;
  readonly switches: FakeNostrRelaySwitches;
  readonly events = new Map<string, Event>();
  readonly receiveCounts = new Map<string, number>();
  readonly authEvents: Event[] = [];
  /** Opened in total, and open now. */
  readonly connections = { opened: 0, open: 0 };

  readonly #changes = new EventEmitter().setMaxListeners(0);
  readonly #verifyEvent: EventVerifier;
  readonly #now: Clock;
  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  readonly #clients = new Set<RelayClient>();
  #server: Server;
  #responsesReleased: Promise<void> = Promise.resolve();

  static async start(
    options: Partial<FakeNostrRelaySwitches> & { port?: number; now?: Clock } = {},
  ): Promise<FakeNostrRelay> {
    const { port = 0, now = Date.now, ...switches } = options;
    const server = createServer();
    await listen(server, port);
    return new FakeNostrRelay(server, now, switches, await loadEventVerifier());
  }

  private constructor(
    server: Server,
    now: Clock,
    switches: Partial<FakeNostrRelaySwitches>,
    verifyEvent: EventVerifier,
  ) {
    this.#server = server;
    this.#now = now;
    this.#verifyEvent = verifyEvent;
    this.#port = (server.address() as AddressInfo).port;
    this.url = `ws://127.0.0.1:${this.#port}`;
    this.switches = { ...DEFAULT_SWITCHES, ...switches };
    this.#serve(server);
  }

  async waitForEvents(condition: number | (() => boolean)): Promise<void> {
    const isTrue = typeof condition === 'number' ? () => this.events.size >= condition : condition;
    while (!isTrue()) {
      await once(this.#changes, 'change');
    }
  }

  /** @returns a function that sends the delayed responses and ends the delay */
  holdResponses(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#responsesReleased = promise;
    return resolve;
  }

  storeEvent(event: Event): void {
    this.events.set(event.id, event);
    this.#changes.emit('change');
  }

  async stop(): Promise<void> {
    const serverClosed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await serverClosed;
  }

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
    server.on('connection', (socket) => this.#trackConnection(socket));
    const webSocketServer = new WebSocketServer({ noServer: true, maxPayload: 1024 * 1024 });
    server.on('upgrade', (request, socket, head) => {
      const { handshake } = this.switches;
      if (handshake === 'open') {
        webSocketServer.handleUpgrade(request, socket, head, (webSocket) =>
          this.#addClient(webSocket, normaliseUrl(`${this.url}${request.url}`)),
        );
      } else if (handshake === 'silent') {
        // Without reading, the relay would not notice that the client disconnects.
        socket.resume().once('end', () => socket.end());
      } else {
        socket.end(
          `HTTP/1.1 ${handshake} Rejected\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n`,
        );
      }
    });
  }

  #trackConnection(socket: Socket): void {
    const { connections } = this;
    connections.opened += 1;
    connections.open += 1;
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      connections.open -= 1;
      this.#sockets.delete(socket);
      this.#changes.emit('change');
    });
    this.#changes.emit('change');
  }

  #addClient(socket: WebSocket, relayUrl: string | null): void {
    const client: RelayClient = {
      socket,
      relayUrl,
      challenge: randomBytes(16).toString('hex'),
      isChallengeSent: false,
      isAuthenticated: false,
      subscriptions: new Map(),
      responsesSent: Promise.resolve(),
    };
    this.#clients.add(client);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#clients.delete(client));
    socket.on('message', (data) => {
      if (socket.readyState === socket.OPEN) {
        this.#handleMessage(client, String(data));
        this.#changes.emit('change');
      }
    });
    if (this.switches.auth === 'at_connect') {
      sendChallenge(client);
    }
  }

  #handleMessage(client: RelayClient, text: string): void {
    const [type, eventOrId, ...filters] = JSON.parse(text) as unknown[];
    if (type === 'EVENT') {
      this.#handleEvent(client, eventOrId as Event);
    } else if (type === 'AUTH') {
      const event = eventOrId as Event;
      this.#respond(client, [['OK', event.id, ...this.#handleAuth(client, event)]]);
    } else if (type === 'REQ') {
      this.#respond(client, this.#handleQuery(client, String(eventOrId), filters as Filter[]));
    } else if (type === 'CLOSE') {
      client.subscriptions.delete(String(eventOrId));
    } else {
      this.#respond(client, [['NOTICE', 'unknown message']]);
    }
  }

  #respond(client: RelayClient, messages: readonly unknown[][]): void {
    client.responsesSent = Promise.all([client.responsesSent, this.#responsesReleased]).then(() => {
      for (const message of messages) {
        send(client.socket, message);
      }
    });
  }

  #handleEvent(client: RelayClient, event: Event): void {
    this.receiveCounts.set(event.id, (this.receiveCounts.get(event.id) ?? 0) + 1);
    const rejection = this.#findRejection(client, event);
    if (rejection !== null) {
      this.#respond(client, [['OK', event.id, false, rejection]]);
      return;
    }
    const { eventHandling } = this.switches;
    const isStored = this.events.has(event.id);
    if (!isStored && eventHandling !== 'ignore') {
      // Relays need not keep ephemeral events (NIP-01).
      if (!isEphemeralKind(event.kind) || this.switches.storesEphemeralEvents) {
        this.storeEvent(event);
      }
      this.#forwardEvent(event);
    }
    if (eventHandling === 'answer') {
      const message = isStored ? 'duplicate: already have this event' : '';
      this.#respond(client, [['OK', event.id, true, message]]);
    }
  }

  #forwardEvent(event: Event): void {
    for (const client of this.#clients) {
      const messages = [...client.subscriptions]
        .filter(([, filters]) => matchFilters(filters, event))
        .map(([subscriptionId]) => ['EVENT', subscriptionId, event]);
      this.#respond(client, messages);
    }
  }

  #findRejection(client: RelayClient, event: Event): string | null {
    if (!this.#verifyEvent(event)) {
      return 'invalid: bad id or signature';
    }
    if (this.#requireAuth(client)) {
      return 'auth-required: members only';
    }
    return this.switches.rejectionMessage;
  }

  #handleAuth(client: RelayClient, event: Event): [isAccepted: boolean, message: string] {
    this.authEvents.push(event);
    const tag = (name: string) => event.tags.find(([tagName]) => tagName === name)?.[1];
    const isValid =
      event.kind === ClientAuth &&
      tag('challenge') === client.challenge &&
      normaliseUrl(tag('relay') ?? '') === client.relayUrl &&
      Math.abs(event.created_at - toUnixSeconds(this.#now())) <= 600 &&
      this.#verifyEvent(event);
    if (!isValid) {
      return [false, 'invalid: wrong AUTH event'];
    }
    client.isAuthenticated = true;
    return [true, ''];
  }

  #handleQuery(client: RelayClient, subscriptionId: string, filters: Filter[]): unknown[][] {
    const { queryHandling } = this.switches;
    if (this.#requireAuth(client)) {
      return [['CLOSED', subscriptionId, 'auth-required: members only']];
    }
    if (queryHandling === 'ignore') {
      return [];
    }
    if (queryHandling !== 'answer') {
      return [['CLOSED', subscriptionId, queryHandling]];
    }
    client.subscriptions.set(subscriptionId, filters);
    const matches = new Set(filters.flatMap((filter) => this.#queryEvents(filter)));
    return [
      ...[...matches].map((event) => ['EVENT', subscriptionId, event]),
      ['EOSE', subscriptionId],
    ];
  }

  #queryEvents(filter: Filter): Event[] {
    return [...this.events.values()]
      .filter((event) => matchFilter(filter, event))
      .toSorted((a, b) => b.created_at - a.created_at || (a.id < b.id ? -1 : 1))
      .slice(0, filter.limit);
  }

  #requireAuth(client: RelayClient): boolean {
    const mustAuthenticate = this.switches.auth !== 'none' && !client.isAuthenticated;
    if (mustAuthenticate) {
      sendChallenge(client);
    }
    return mustAuthenticate;
  }
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

function send(socket: WebSocket, message: unknown): void {
  socket.send(JSON.stringify(message));
}

function normaliseUrl(url: string): string | null {
  return normaliseRelayUrl(url, { allowPrivateNetworks: true });
}

function sendChallenge(client: RelayClient): void {
  if (!client.isChallengeSent) {
    client.isChallengeSent = true;
    send(client.socket, ['AUTH', client.challenge]);
  }
}
