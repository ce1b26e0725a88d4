import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { type Event, generateSecretKey } from 'nostr-tools';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { createLogger, type Logger } from '../../src/log.ts';
import {
  createGuardedWebSocketConnector,
  type WebSocketConnector,
} from '../../src/net/guarded-websocket.ts';
import {
  type EventSigner,
  type EventVerifier,
  loadEventSigner,
  loadEventVerifier,
} from '../../src/nostr/events.ts';
import { RelayPool } from '../../src/zaps/relay-pool.ts';
import { flood } from '../helpers/mints/fake-hostile-mint.ts';
import { openTestEgress } from '../helpers/network/open-test-egress.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';

/** The service disconnects a relay that sends a larger message. */
const MAX_MESSAGE_BYTES = 256 * 1024;

/** Much longer than the requests of these tests take, so that no timeout ends them. */
const UNREACHED_TIMEOUT_MS = 60_000;

/** Messages of almost the maximum size, filled with invalid elements. */
const MALFORMED_MESSAGES: readonly (readonly [string, string])[] = [
  ['an event whose tags are numbers', eventMessage(`[${repeatToFill('1')}]`)],
  ['an event with a tag of numbers', eventMessage(`[[${repeatToFill('1')}]]`)],
  ['an event whose tags are objects', eventMessage(`[${repeatToFill('{}')}]`)],
  ['an array of numbers', `[${repeatToFill('1')}]`],
  ['an OK with too many elements', `["OK",${repeatToFill('1')}]`],
  ['a CLOSED with too many elements', `["CLOSED",${repeatToFill('[]')}]`],
  ['an EVENT with too many elements', `["EVENT",{},${repeatToFill('{}')}]`],
  ['deeply nested arrays', '['.repeat(MAX_MESSAGE_BYTES / 2) + ']'.repeat(MAX_MESSAGE_BYTES / 2)],
];

let signer: EventSigner;
let verifyEvent: EventVerifier;

beforeAll(async () => {
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
  verifyEvent = await loadEventVerifier();
});

it.each(MALFORMED_MESSAGES)('stays connected to a relay that sends %s', async (_name, message) => {
  expect(message.length).toBeLessThanOrEqual(MAX_MESSAGE_BYTES);
  const relayUrl = await startFakeRelay((send, _kind, id) => {
    send(message);
    send(JSON.stringify(['OK', id, true, '']));
  });
  const result = await openPool().publish(relayUrl, signTextNote());
  expect(result).toEqual({ outcome: 'accepted', message: '' });
});

it.each([
  ['85,000 empty tags', Array.from({ length: 85_000 }, () => [])],
  ['a tag of 80,000 empty strings', [Array.from({ length: 80_000 }, () => '')]],
  ['2,000 tags', Array.from({ length: 2_000 }, () => ['r', 'wss://relay.example'])],
])('ignores an event with %s without verifying its signature', async (_name, tags) => {
  const verifiedIds: string[] = [];
  const relayUrl = await startFakeRelay(serveEvent(signRelayList(tags)));
  const pool = openPool({ verifyEvent: ({ id }) => verifiedIds.push(id) > 0 });
  expect(await pool.query(relayUrl, {}, UNREACHED_TIMEOUT_MS)).toEqual({ outcome: 'none' });
  expect(verifiedIds).toEqual([]);
});

it('accepts a relay list with 500 relays', async () => {
  const tags = Array.from({ length: 500 }, (_, i) => ['r', `wss://relay-${i}.example`, 'write']);
  const relayList = signRelayList(tags);
  const relayUrl = await startFakeRelay(serveEvent(relayList));
  const result = await openPool().query(relayUrl, {}, UNREACHED_TIMEOUT_MS);
  expect(result).toMatchObject({ outcome: 'found', event: { id: relayList.id } });
});

it('logs an exception in the message handler, closes that connection, and can connect again', async () => {
  const { lines, log } = new LogCapture('error');
  const relayUrl = await startFakeRelay(serveEvent(signRelayList([])));
  const pool = openPool({
    log,
    verifyEvent: () => {
      throw new TypeError('simulated bug');
    },
  });
  const result = await pool.query(relayUrl, {}, UNREACHED_TIMEOUT_MS);
  expect(result).toEqual({ outcome: 'no_response' });
  expect(lines.join()).toContain('simulated bug');
  expect(await pool.publish(relayUrl, signTextNote())).toEqual({
    outcome: 'accepted',
    message: '',
  });
});

it.each([
  'HTTP/1.1 100 Continue',
  'HTTP/1.1 102 Processing',
  'HTTP/1.1 103 Early Hints\r\nLink: </x>',
])('disconnects a host that endlessly repeats the response %j', async (interimResponse) => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => flood(socket, `${interimResponse}\r\n\r\n`));
  });
  const url = await listenOnFreePort(server);
  const egress = openTestEgress();
  expect(await openPool({ connect: egress.connect }).publish(url, signTextNote())).toEqual({
    outcome: 'unreachable',
    message: 'response too large',
  });
});

it('connects to a relay that sends one interim response before the handshake', async () => {
  const relayUrl = await startFakeRelay(serveEvent(signRelayList([])));
  const proxy = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write('HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n');
    socket.pipe(connect(Number(new URL(relayUrl).port), '127.0.0.1')).pipe(socket);
  });
  const result = await openPool().publish(await listenOnFreePort(proxy), signTextNote());
  expect(result).toMatchObject({ outcome: 'accepted' });
});

/** Returns as many comma-separated copies as fit in a message, with 500 bytes left for the rest of the message. */
function repeatToFill(element: string): string {
  return Array(Math.floor((MAX_MESSAGE_BYTES - 500) / (element.length + 1)))
    .fill(element)
    .join(',');
}

function eventMessage(tagsJson: string): string {
  const hex = 'a'.repeat(64);
  return (
    `["EVENT","q1",{"id":"${hex}","pubkey":"${hex}","sig":"${hex}${hex}","kind":1,` +
    `"created_at":1,"content":"","tags":${tagsJson}}]`
  );
}

/**
 * Responds to a message of the service.
 *
 * @param kind `EVENT`, `REQ` or `CLOSE`
 * @param id the event id or the subscription id
 */
type MessageHandler = (send: (text: string) => void, kind: string, id: string) => void;

/** Creates a handler that returns this event to every query, and accepts all published events. */
function serveEvent(event: Event): MessageHandler {
  return (send, kind, id) => {
    if (kind === 'REQ') {
      send(JSON.stringify(['EVENT', id, event]));
      send(JSON.stringify(['EOSE', id]));
    } else if (kind === 'EVENT') {
      send(JSON.stringify(['OK', id, true, '']));
    }
  };
}

async function startFakeRelay(onMessage: MessageHandler): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
  });
  server.on('connection', (socket) => {
    socket.on('error', () => undefined);
    socket.on('message', (data) => {
      const [kind, subject] = JSON.parse(String(data));
      onMessage((text) => socket.send(text), kind, subject.id ?? subject);
    });
  });
  return webSocketUrl(server);
}

/** @returns the server's WebSocket URL */
async function listenOnFreePort(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
  });
  return webSocketUrl(server);
}

function webSocketUrl(server: { address(): unknown }): string {
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function openPool(
  options: { connect?: WebSocketConnector; verifyEvent?: EventVerifier; log?: Logger } = {},
): RelayPool {
  const connect =
    options.connect ??
    createGuardedWebSocketConnector({
      allowPrivateNetworks: true,
      handshakeTimeoutMs: UNREACHED_TIMEOUT_MS,
    });
  const pool = new RelayPool(connect, {
    signer,
    verifyEvent: options.verifyEvent ?? verifyEvent,
    clock: Date.now,
    log: options.log ?? createLogger('silent'),
    responseTimeoutMs: UNREACHED_TIMEOUT_MS,
  });
  onTestFinished(() => pool.close());
  return pool;
}

/** Signs a relay list (NIP-65). */
function signRelayList(tags: string[][]): Event {
  return signer.sign({ kind: 10_002, tags, content: '', created_at: 1_700_000_000 });
}

function signTextNote(): { id: string; eventJson: string } {
  const event = signer.sign({ kind: 1, tags: [], content: 'hello', created_at: 1_700_000_000 });
  return { id: event.id, eventJson: JSON.stringify(event) };
}
