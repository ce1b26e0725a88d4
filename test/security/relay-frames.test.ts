import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { type Event, generateSecretKey } from 'nostr-tools';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { type EventSigner, loadEventSigner } from '../../src/auth/event-signer.ts';
import { type EventVerifier, loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { type Log, openLog } from '../../src/log.ts';
import { guardedSocketConnector, type SocketConnector } from '../../src/net/guarded-socket.ts';
import { parseRelayMessage } from '../../src/relays/relay-message.ts';
import { RelayPool } from '../../src/relays/relay-pool.ts';
import type { Dribble } from '../helpers/dribbling-relay.ts';
import { flood } from '../helpers/hostile-mint.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { CERTIFICATE } from '../helpers/mint-certificate.ts';

/** Every name is a public host, which happens to be here. */
vi.mock(import('../../src/net/address-guard.ts'), async (importOriginal) => ({
  ...(await importOriginal()),
  guardedLookup: () => (_hostname, options, callback) =>
    options.all
      ? callback(null, [{ address: '127.0.0.1', family: 4 }])
      : callback(null, '127.0.0.1', 4),
}));

/** What a message may have. */
const MESSAGE_BYTES = 256 * 1024;

/** A busy machine may take as long for something; the attacks take several times that. */
const LONGEST_STALL_MS = 1_000;

/** Where something else must end it: longer than any test. */
const NEVER_MS = 60_000;

/** How a relay lists what is stored. */
const LISTING = { timeoutMs: NEVER_MS, limit: 1 };

const ID = 'a'.repeat(64);
const SIGNATURE = 'b'.repeat(128);

/** Messages of the greatest length, in each of which very much is wrong. */
const OVERFULL: readonly (readonly [string, string])[] = [
  ['tags that are numbers', eventWith(`[${listOf('1', 500)}]`)],
  ['a tag of numbers', eventWith(`[[${listOf('1', 500)}]]`)],
  ['tags that are objects', eventWith(`[${listOf('{}', 500)}]`)],
  ['numbers', `[${listOf('1', 10)}]`],
  ['more than an OK has', `["OK",${listOf('1', 20)}]`],
  ['more than a CLOSED has', `["CLOSED",${listOf('[]', 30)}]`],
  ['an object for each part of an event', `["EVENT",{},${listOf('{}', 30)}]`],
  ['nothing but brackets', '['.repeat(MESSAGE_BYTES / 2) + ']'.repeat(MESSAGE_BYTES / 2)],
];

let signer: EventSigner;
let verifyEvent: EventVerifier;

beforeAll(async () => {
  signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
  verifyEvent = await loadEventVerifier();
});

describe('a message in which very much is wrong', () => {
  it.each(OVERFULL)('(%s) answers nothing, like any other that is malformed', (_what, text) => {
    expect(text.length).toBeLessThanOrEqual(MESSAGE_BYTES);
    expect(parseRelayMessage(text)).toBeNull();
  });

  it.each(OVERFULL)('(%s) leaves a relay to be heard that says it', async (_what, text) => {
    const url = await startRelay((say, _kind, id) => {
      say(text);
      say(JSON.stringify(['OK', id, true, '']));
    });
    expect(await openPool().publish(url, signed())).toEqual({ outcome: 'accepted', word: '' });
  });
});

describe('an event that a relay has', () => {
  it.each([
    ['85,000 empty tags', Array.from({ length: 85_000 }, () => [])],
    ['a tag of 80,000 empty texts', [Array.from({ length: 80_000 }, () => '')]],
    ['two thousand tags', Array.from({ length: 2_000 }, () => ['r', 'wss://relay.example'])],
  ])('with %s is not looked at any further', async (_what, tags) => {
    const event = signer.sign({ kind: 10_002, tags, content: '', created_at: 1_700_000_000 });
    const looked: string[] = [];
    const url = await startRelay(answerWith(event));
    const pool = openPool({ verifyEvent: ({ id }) => looked.push(id) > 0 });
    expect(await pool.query(url, {}, LISTING)).toEqual([]);
    expect(looked).toEqual([]);
  });

  it('with as many tags as anybody has relays is found', async () => {
    const tags = Array.from({ length: 500 }, (_, i) => ['r', `wss://relay-${i}.example`, 'write']);
    const event = signer.sign({ kind: 10_002, tags, content: '', created_at: 1_700_000_000 });
    const url = await startRelay(answerWith(event));
    const found = await openPool().query(url, {}, LISTING);
    expect(found?.map(({ id }) => id)).toEqual([event.id]);
  });

  it('that we cannot deal with ends its connection, and nothing else, and is told', async () => {
    const { lines, log } = new LogCapture('error');
    const event = signer.sign({ kind: 1, tags: [], content: '', created_at: 1_700_000_000 });
    const url = await startRelay(answerWith(event));
    const pool = openPool({
      log,
      verifyEvent: () => {
        throw new TypeError('a bug of ours');
      },
    });
    expect(await pool.query(url, {}, LISTING)).toBeNull();
    expect(lines.join()).toContain('a bug of ours');
    expect(await pool.publish(url, signed())).toEqual({ outcome: 'accepted', word: '' });
  });
});

describe('a relay that is not in a hurry', () => {
  // Where it is not cut off, what it was sent is never settled.
  it.each<[Dribble]>([['message'], ['short messages'], ['after goodbye']])(
    'holds up nobody, though it says each byte by itself (%s)',
    async (workerData) => {
      setDefaultCACertificates([...getCACertificates('default'), CERTIFICATE]);
      const worker = new Worker(new URL('../helpers/dribbling-relay.ts', import.meta.url), {
        workerData,
      });
      onTestFinished(async () => {
        await worker.terminate();
      });
      const [port] = await once(worker, 'message');
      const stalls = monitorEventLoopDelay({ resolution: 10 });
      stalls.enable();
      const gone = Promise.withResolvers<void>();
      const guarded = guardedSocketConnector({ allowPrivateNetworks: false });
      const pool = openPool({
        connect: (url) => guarded(url).once('close', () => gone.resolve()),
      });
      const answer = await pool.publish(`wss://mint.test:${port}`, signed());
      await gone.promise;
      stalls.disable();
      expect(answer).toEqual({ outcome: 'unanswered' });
      expect(stalls.max / 1e6).toBeLessThan(LONGEST_STALL_MS);
    },
  );

  it.each([
    'HTTP/1.1 100 Continue',
    'HTTP/1.1 102 Processing',
    'HTTP/1.1 103 Early Hints\r\nLink: </x>',
  ])('to shake hands, and says %j for ever, is no relay', async (interim) => {
    const server = createServer((peer) => {
      peer.on('error', () => undefined);
      peer.once('data', () => flood(peer, `${interim}\r\n\r\n`));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(async () => {
      server.close();
    });
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await openPool().publish(url, signed())).toEqual({
      outcome: 'unreachable',
      reason: 'not a relay',
    });
  });

  it('to shake hands, and says once that it is at it, is one', async () => {
    const url = await startRelay((say, _kind, id) => say(JSON.stringify(['OK', id, true, ''])));
    const upstream = Number(new URL(url).port);
    const server = createServer((peer) => {
      peer.on('error', () => undefined);
      peer.write('HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n');
      peer.pipe(connect(upstream, '127.0.0.1')).pipe(peer);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(async () => {
      server.close();
    });
    const hinting = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await openPool().publish(hinting, signed())).toMatchObject({ outcome: 'accepted' });
  });
});

/** As many of an entry as a message has room for beside some more bytes. */
function listOf(entry: string, otherBytes: number): string {
  const count = Math.floor((MESSAGE_BYTES - otherBytes) / (entry.length + 1));
  return Array(count).fill(entry).join(',');
}

function eventWith(tags: string): string {
  return (
    `["EVENT","q1",{"id":"${ID}","pubkey":"${ID}","sig":"${SIGNATURE}","kind":1,` +
    `"created_at":1,"content":"","tags":${tags}}]`
  );
}

/** @param id of the event, or of the subscription */
type Script = (say: (text: string) => void, kind: string, id: string) => void;

/** Answers each query with the event, and takes every other. */
function answerWith(event: Event): Script {
  return (say, kind, id) => {
    if (kind === 'REQ') {
      say(JSON.stringify(['EVENT', id, event]));
      say(JSON.stringify(['EOSE', id]));
    } else if (kind === 'EVENT') {
      say(JSON.stringify(['OK', id, true, '']));
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
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function openPool(
  options: { connect?: SocketConnector; verifyEvent?: EventVerifier; log?: Log } = {},
): RelayPool {
  const pool = new RelayPool({
    connect:
      options.connect ??
      guardedSocketConnector({ allowPrivateNetworks: true, handshakeTimeoutMs: NEVER_MS }),
    signer,
    verifyEvent: options.verifyEvent ?? verifyEvent,
    clock: Date.now,
    log: options.log ?? openLog('silent'),
    timing: { answerTimeoutMs: NEVER_MS },
  });
  onTestFinished(() => pool.close());
  return pool;
}

function signed(): { id: string; text: string } {
  const event = signer.sign({ kind: 1, tags: [], content: 'hello', created_at: 1_700_000_000 });
  return { id: event.id, text: JSON.stringify(event) };
}
