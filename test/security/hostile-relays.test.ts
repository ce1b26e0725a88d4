import { connect, createServer } from 'node:net';
import { type EventTemplate, generateSecretKey } from 'nostr-tools';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { type EventSigner, loadEventSigner, loadEventVerifier } from '../../src/nostr/events.ts';
import { RelayPool } from '../../src/relays/relay-pool.ts';
import { flood } from '../helpers/mints/fake-hostile-mint.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { openTestEgress } from '../helpers/network/open-test-egress.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';

/** Much longer than the requests of these tests take, so that no timeout ends them. */
const UNREACHED_TIMEOUT_MS = 60_000;

let signer: EventSigner;

beforeAll(async () => {
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
});

it.each([
  ['85,000 empty tags', Array.from({ length: 85_000 }, () => [])],
  ['2,000 tags', Array.from({ length: 2_000 }, () => ['r', 'wss://relay.example'])],
])('ignores an event with %s without verifying its signature', async (_name, tags) => {
  const verifiedIds: string[] = [];
  const pool = await openPool({ verifyEvent: ({ id }) => verifiedIds.push(id) > 0 });
  const { url } = await startRelayWithEvent(tags);
  expect(await pool.query(url, {}, UNREACHED_TIMEOUT_MS)).toEqual({ outcome: 'none' });
  expect(verifiedIds).toEqual([]);
});

it('accepts a relay list with 500 relays', async () => {
  const tags = Array.from({ length: 500 }, (_, i) => ['r', `wss://relay-${i}.example`, 'write']);
  const { url, event } = await startRelayWithEvent(tags);
  const result = await (await openPool()).query(url, {}, UNREACHED_TIMEOUT_MS);
  expect(result).toMatchObject({ outcome: 'found', event: { id: event.id } });
});

it('logs an exception in the message handler, closes that connection, and can connect again', async () => {
  const { lines, log } = new LogCapture('error');
  const { url } = await startRelayWithEvent([]);
  const pool = await openPool({
    log,
    verifyEvent: () => {
      throw new TypeError('simulated bug');
    },
  });
  const result = await pool.query(url, {}, UNREACHED_TIMEOUT_MS);
  expect(result).toEqual({ outcome: 'no_response' });
  expect(lines.join()).toContain('simulated bug');
  expect(await pool.publish(url, signTextNote())).toMatchObject({ outcome: 'accepted' });
});

it.each([
  'HTTP/1.1 100 Continue',
  'HTTP/1.1 102 Processing',
  'HTTP/1.1 103 Early Hints\r\nLink: </x>',
])('disconnects a host that endlessly repeats the response %j', async (interimResponse) => {
  const server = createServer((socket) => {
    socket.once('data', () => flood(socket, `${interimResponse}\r\n\r\n`));
  });
  const { port, close } = await listenOnLoopback(server);
  onTestFinished(close);
  const pool = await openPool({}, openTestEgress().connect);
  expect(await pool.publish(`ws://127.0.0.1:${port}`, signTextNote())).toEqual({
    outcome: 'unreachable',
    message: 'response too large',
  });
});

it('connects to a relay that sends one interim response before the handshake', async () => {
  const { url } = await startRelayWithEvent([]);
  const proxy = createServer((socket) => {
    socket.write('HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n');
    socket.pipe(connect(Number(new URL(url).port), '127.0.0.1')).pipe(socket);
  });
  const { port, close } = await listenOnLoopback(proxy);
  onTestFinished(close);
  const pool = await openPool();
  expect(await pool.publish(`ws://127.0.0.1:${port}`, signTextNote())).toMatchObject({
    outcome: 'accepted',
  });
});

async function startRelayWithEvent(tags: string[][]) {
  const relay = await startFakeRelay();
  const event = sign({ kind: 10_002, tags });
  relay.events.set(event.id, event);
  return { url: relay.url, event };
}

async function openPool(
  overrides: Partial<ConstructorParameters<typeof RelayPool>[1]> = {},
  connector = createGuardedWebSocketConnector({ allowPrivateNetworks: true }),
): Promise<RelayPool> {
  const pool = new RelayPool(connector, {
    signer,
    verifyEvent: await loadEventVerifier(),
    clock: Date.now,
    log: createLogger('silent'),
    responseTimeoutMs: UNREACHED_TIMEOUT_MS,
    ...overrides,
  });
  onTestFinished(() => pool.close());
  return pool;
}

function sign(event: Partial<EventTemplate> & { kind: number }) {
  return signer.sign({
    tags: [],
    content: '',
    created_at: Math.floor(Date.now() / 1_000),
    ...event,
  });
}

function signTextNote(): { id: string; eventJson: string } {
  const event = sign({ kind: 1 });
  return { id: event.id, eventJson: JSON.stringify(event) };
}
