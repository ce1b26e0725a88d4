import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Event } from 'nostr-tools';
import { type WebSocket, WebSocketServer } from 'ws';
import { loadEventVerifier } from '../../src/auth/event-verifier.ts';

/**
 * How a relay of the field behaves.
 *
 * - `healthy`: takes every event, checks it and says OK.
 * - `refusing`: takes no connection.
 * - `silent`: takes TCP connections and never answers the handshake.
 * - `mute`: answers the handshake, and nothing after it.
 */
export type FieldRelayKind = 'healthy' | 'refusing' | 'silent' | 'mute';

/** Which relays there are: standard input. */
export interface RelayFieldPlan {
  kinds: FieldRelayKind[];
  /** Who signs the receipts, hex. */
  signedBy: string;
}

/** The line of standard output. */
export interface RelayFieldStart {
  /**
   * `GET` answers {@link RelayFieldCounts}; `GET receipts` answers {@link ArrivedReceipt}s; `POST`
   * forgets all events.
   */
  controlUrl: string;
  /** In the order of the plan. */
  relayUrls: string[];
}

/** What came to the relays since they last forgot all. */
export interface RelayFieldCounts {
  /** Different receipts at each relay, in the order of the plan. */
  receipts: number[];
  /** Receipts that a relay had already. */
  repeats: number;
  /** Open sockets of healthy relays. */
  openSockets: number;
  /** Attempts to reach the dead ones that listen. */
  attemptsAtDead: number;
  /** Messages that no relay takes, and receipts that are wrong in themselves. */
  mistakes: number;
  firstMistake: string | null;
}

/** A receipt that some relay got. */
export interface ArrivedReceipt {
  id: string;
  /** Its `bolt11` and its `description`. */
  invoice: string;
  zapRequest: string;
  /** When it came to each relay, in the order of the plan; milliseconds since 1970. */
  arrivedAtMs: (number | null)[];
}

/** Relays, each on a port of its own, in one process. */

const plan = (await json(process.stdin)) as RelayFieldPlan;
const verifyEvent = await loadEventVerifier();

const receipts = new Map<string, ArrivedReceipt>();
/** By the message that brought it, so that it is read and checked once and not by every relay. */
const known = new Map<string, ArrivedReceipt>();
let receiptsAt = plan.kinds.map(() => 0);
let repeats = 0;
let openSockets = 0;
let attemptsAtDead = 0;
let mistakes = 0;
let firstMistake: string | null = null;

const relayUrls = await Promise.all(
  plan.kinds.map(async (kind, relay) => {
    const server = serverOf(kind, relay);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { address, port } = server.address() as AddressInfo;
    if (kind === 'refusing') {
      server.close();
    }
    return `ws://${address}:${port}`;
  }),
);

const control = createServer((request, response) => {
  if (request.method === 'POST') {
    forget();
  }
  const answer = request.url === '/receipts' ? [...receipts.values()] : counts();
  response.end(JSON.stringify(answer));
});
control.listen(0, '127.0.0.1');
await once(control, 'listening');
const controlUrl = `http://127.0.0.1:${(control.address() as AddressInfo).port}`;
process.stdout.write(`${JSON.stringify({ controlUrl, relayUrls } satisfies RelayFieldStart)}\n`);

function serverOf(kind: FieldRelayKind, relay: number): Server {
  if (kind === 'refusing') {
    return createTcpServer();
  }
  if (kind === 'silent') {
    return createTcpServer((socket) => {
      attemptsAtDead += 1;
      socket.on('error', () => socket.destroy()).resume();
    });
  }
  const server = createServer();
  new WebSocketServer({ server }).on('connection', (socket) => {
    socket.on('error', () => socket.terminate());
    if (kind === 'mute') {
      attemptsAtDead += 1;
      return;
    }
    openSockets += 1;
    socket.on('close', () => {
      openSockets -= 1;
    });
    socket.on('message', (data) => receive(socket, String(data), relay));
  });
  return server;
}

function receive(socket: WebSocket, message: string, relay: number): void {
  const receipt = known.get(message) ?? read(message);
  if (receipt === null) {
    return;
  }
  if (receipt.arrivedAtMs[relay] === null) {
    receipt.arrivedAtMs[relay] = performance.timeOrigin + performance.now();
    receiptsAt[relay] = (receiptsAt[relay] ?? 0) + 1;
  } else {
    repeats += 1;
  }
  socket.send(`["OK","${receipt.id}",true,""]`);
}

/** Null where it is no receipt. */
function read(message: string): ArrivedReceipt | null {
  const [kind, event] = JSON.parse(message) as [string, Event];
  if (kind !== 'EVENT') {
    note(`a message of kind ${kind}`);
    return null;
  }
  const tag = (name: string) => event.tags.find(([first]) => first === name)?.[1] ?? '';
  if (event.kind !== 9735 || event.pubkey !== plan.signedBy || !verifyEvent(event)) {
    note(`an event of kind ${event.kind} that is no receipt of the service`);
  }
  if (receipts.has(event.id)) {
    note('one receipt in two texts');
  }
  const receipt: ArrivedReceipt = {
    id: event.id,
    invoice: tag('bolt11'),
    zapRequest: tag('description'),
    arrivedAtMs: plan.kinds.map(() => null),
  };
  receipts.set(event.id, receipt);
  known.set(message, receipt);
  return receipt;
}

function note(mistake: string): void {
  mistakes += 1;
  firstMistake ??= mistake;
}

function counts(): RelayFieldCounts {
  return {
    receipts: receiptsAt,
    repeats,
    openSockets,
    attemptsAtDead,
    mistakes,
    firstMistake,
  };
}

function forget(): void {
  receipts.clear();
  known.clear();
  receiptsAt = plan.kinds.map(() => 0);
  repeats = 0;
  attemptsAtDead = 0;
}
