import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { type Event, generateSecretKey } from 'nostr-tools';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
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
import { flood } from '../helpers/hostile-mint.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { TEST_CERTIFICATE } from '../helpers/test-certificate.ts';
import type { TrickleMode } from '../helpers/trickling-relay-worker.ts';

/** Hostile relays. `egress.test.ts` covers their addresses. */

/** Every name resolves to this machine, as if it were public. */
vi.mock(import('../../src/net/address-guard.ts'), async (importOriginal) => ({
  ...(await importOriginal()),
  createGuardedLookup: () => (_hostname, options, callback) =>
    options.all
      ? callback(null, [{ address: '127.0.0.1', family: 4 }])
      : callback(null, '127.0.0.1', 4),
}));

/** The largest message. */
const MESSAGE_BYTES = 256 * 1024;

/** A busy machine may stall this long; the attacks would stall several times longer. */
const LONGEST_STALL_MS = 1_000;

/** Longer than any test, so that something else must end the exchange. */
const NEVER_MS = 60_000;

const ID = 'a'.repeat(64);

/** Messages of the maximum length, each with as many mistakes as fit. */
const OVERFULL: readonly (readonly [string, string])[] = [
  ['tags that are numbers', eventWith(`[${listOf('1')}]`)],
  ['a tag of numbers', eventWith(`[[${listOf('1')}]]`)],
  ['tags that are objects', eventWith(`[${listOf('{}')}]`)],
  ['numbers', `[${listOf('1')}]`],
  ['more than an OK has', `["OK",${listOf('1')}]`],
  ['more than a CLOSED has', `["CLOSED",${listOf('[]')}]`],
  ['an object for each part of an event', `["EVENT",{},${listOf('{}')}]`],
  ['nothing but brackets', '['.repeat(MESSAGE_BYTES / 2) + ']'.repeat(MESSAGE_BYTES / 2)],
];

let signer: EventSigner;
let verifyEvent: EventVerifier;

beforeAll(async () => {
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
  verifyEvent = await loadEventVerifier();
});

it.each(OVERFULL)('stays connected to a relay that sends %s', async (_what, text) => {
  expect(text.length).toBeLessThanOrEqual(MESSAGE_BYTES);
  const url = await startRelay((send, _kind, id) => {
    send(text);
    send(JSON.stringify(['OK', id, true, '']));
  });
  expect(await openPool().publish(url, signed())).toEqual({ outcome: 'accepted', message: '' });
});

it.each([
  ['85,000 empty tags', Array.from({ length: 85_000 }, () => [])],
  ['a tag of 80,000 empty texts', [Array.from({ length: 80_000 }, () => '')]],
  ['two thousand tags', Array.from({ length: 2_000 }, () => ['r', 'wss://relay.example'])],
])('ignores an event with %s before its signature is verified', async (_what, tags) => {
  const verified: string[] = [];
  const url = await startRelay(answerWith(relayList(tags)));
  const pool = openPool({ verifyEvent: ({ id }) => verified.push(id) > 0 });
  expect(await pool.query(url, {}, NEVER_MS)).toEqual({ outcome: 'none' });
  expect(verified).toEqual([]);
});

it('reads an event with five hundred relays', async () => {
  const tags = Array.from({ length: 500 }, (_, i) => ['r', `wss://relay-${i}.example`, 'write']);
  const event = relayList(tags);
  const url = await startRelay(answerWith(event));
  const answer = await openPool().query(url, {}, NEVER_MS);
  expect(answer).toMatchObject({ outcome: 'found', event: { id: event.id } });
});

it('closes only the connection whose message handler throws', async () => {
  const { lines, log } = new LogCapture('error');
  const url = await startRelay(answerWith(relayList([])));
  const pool = openPool({
    log,
    verifyEvent: () => {
      throw new TypeError('a bug of ours');
    },
  });
  expect(await pool.query(url, {}, NEVER_MS)).toEqual({ outcome: 'no_response' });
  expect(lines.join()).toContain('a bug of ours');
  expect(await pool.publish(url, signed())).toEqual({ outcome: 'accepted', message: '' });
});

describe('a slow relay', () => {
  // If the connection is not closed, `publish` never resolves.
  it.each<[TrickleMode]>([['message'], ['short messages'], ['after goodbye']])(
    'that sends byte by byte (%s) does not block the event loop',
    async (workerData) => {
      setDefaultCACertificates([...getCACertificates('default'), TEST_CERTIFICATE]);
      const worker = new Worker(new URL('../helpers/trickling-relay-worker.ts', import.meta.url), {
        workerData,
      });
      onTestFinished(async () => {
        await worker.terminate();
      });
      const [port] = await once(worker, 'message');
      const stalls = monitorEventLoopDelay({ resolution: 10 });
      stalls.enable();
      const gone = Promise.withResolvers<void>();
      const guarded = createGuardedWebSocketConnector({ allowPrivateNetworks: false });
      const pool = openPool({
        connect: (url) => guarded(url).once('close', () => gone.resolve()),
      });
      const answer = await pool.publish(`wss://mint.test:${port}`, signed());
      await gone.promise;
      stalls.disable();
      expect(answer).toEqual({ outcome: 'no_response' });
      expect(stalls.max / 1e6).toBeLessThan(LONGEST_STALL_MS);
    },
  );

  it.each([
    'HTTP/1.1 100 Continue',
    'HTTP/1.1 102 Processing',
    'HTTP/1.1 103 Early Hints\r\nLink: </x>',
  ])('that repeats %j instead of a handshake is not a relay', async (interim) => {
    const server = createServer((peer) => {
      peer.on('error', () => undefined);
      peer.once('data', () => flood(peer, `${interim}\r\n\r\n`));
    });
    expect(await openPool().publish(await listen(server), signed())).toEqual({
      outcome: 'unreachable',
      reason: 'not a relay',
    });
  });

  it('may send one interim response', async () => {
    const upstream = await startRelay(answerWith(relayList([])));
    const server = createServer((peer) => {
      peer.on('error', () => undefined);
      peer.write('HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n');
      peer.pipe(connect(Number(new URL(upstream).port), '127.0.0.1')).pipe(peer);
    });
    const answer = await openPool().publish(await listen(server), signed());
    expect(answer).toMatchObject({ outcome: 'accepted' });
  });
});

/** As many entries as fit in a message with some more bytes. */
function listOf(entry: string): string {
  return Array(Math.floor((MESSAGE_BYTES - 500) / (entry.length + 1)))
    .fill(entry)
    .join(',');
}

function eventWith(tags: string): string {
  return (
    `["EVENT","q1",{"id":"${ID}","pubkey":"${ID}","sig":"${ID}${ID}","kind":1,` +
    `"created_at":1,"content":"","tags":${tags}}]`
  );
}

/** @param id of the event, or of the subscription */
type Script = (send: (text: string) => void, kind: string, id: string) => void;

/** Responds to each query with the event, and accepts all events that are published. */
function answerWith(event: Event): Script {
  return (send, kind, id) => {
    if (kind === 'REQ') {
      send(JSON.stringify(['EVENT', id, event]));
      send(JSON.stringify(['EOSE', id]));
    } else if (kind === 'EVENT') {
      send(JSON.stringify(['OK', id, true, '']));
    }
  };
}

async function startRelay(onMessage: Script): Promise<string> {
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
  return urlOf(server);
}

async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
  });
  return urlOf(server);
}

function urlOf(server: { address(): unknown }): string {
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function openPool(
  options: { connect?: WebSocketConnector; verifyEvent?: EventVerifier; log?: Logger } = {},
): RelayPool {
  const pool = new RelayPool({
    connect:
      options.connect ??
      createGuardedWebSocketConnector({ allowPrivateNetworks: true, handshakeTimeoutMs: NEVER_MS }),
    signer,
    verifyEvent: options.verifyEvent ?? verifyEvent,
    clock: Date.now,
    log: options.log ?? createLogger('silent'),
    timeouts: { responseTimeoutMs: NEVER_MS },
  });
  onTestFinished(() => pool.close());
  return pool;
}

function relayList(tags: string[][]): Event {
  return signer.sign({ kind: 10_002, tags, content: '', created_at: 1_700_000_000 });
}

function signed(content = 'hello'): { id: string; eventJson: string } {
  const event = signer.sign({ kind: 1, tags: [], content, created_at: 1_700_000_000 });
  return { id: event.id, eventJson: JSON.stringify(event) };
}
