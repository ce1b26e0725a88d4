import { once } from 'node:events';
import type { Socket } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { generateSecretKey } from 'nostr-tools';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import type { WebSocket } from 'ws';
import { createLogger } from '../../../src/log.ts';
import { EcashClient } from '../../../src/mints/ecash-client.ts';
import { SUBSCRIPTION_TIMING, USER_MINT_LIMITS } from '../../../src/mints/limits.ts';
import { MintClient } from '../../../src/mints/mint-client.ts';
import { SubscriptionConnection } from '../../../src/mints/subscription-connection.ts';
import { createEgress } from '../../../src/net/egress.ts';
import { loadEventSigner, loadEventVerifier } from '../../../src/nostr/events.ts';
import { RelayListCache } from '../../../src/relays/relay-list-cache.ts';
import { RelayPool } from '../../../src/relays/relay-pool.ts';
import { AsyncQueue } from '../../helpers/async-queue.ts';
import { flood, startHostileMint } from '../../helpers/mints/fake-hostile-mint.ts';
import {
  buildQuoteNotification,
  FakeWebSocketMint,
} from '../../helpers/mints/fake-websocket-mint.ts';
import { expectShortDelay } from './expect-short-delay.ts';
import { fillArray, fillArrayWithNewShapes, fillObject, HOSTILE_JSON } from './hostile-json.ts';

/**
 * Reads the most expensive known answers and messages of mints and relays that the operator did not name. None may
 * block the event loop of the main thread for long. The mints and relays run in this thread, so each delay includes a
 * part of their work.
 */

const KIBIBYTE = 1024;

/** Each chunk of a response counts as 256 bytes more than it has. */
const CHUNK_ALLOWANCE = 0.95;

const MESSAGE_BYTES = 256 * KIBIBYTE;

const QUOTE_IDS = repeat(1_000, (index) => `0198a6d5-6d0e-7aaa-bbbb-ccccdddd${index}`);

const FEW_QUOTE_IDS = QUOTE_IDS.slice(0, USER_MINT_LIMITS.maxPollBatchSize);

const OUTPUTS = repeat(256, () => ({ amount: 1, id: '00', B_: '02' }));

// All connections are in the network thread. Each port is a site.
const egress = createEgress({ allowPrivateNetworks: true, operatorUrls: [] });
afterAll(() => egress.close());
const deps = { fetch: egress.createFetch(), clock: Date.now };
const mintClient = new MintClient(deps);
const ecashClient = new EcashClient(deps);

type MintRequest = (mintUrl: string) => Promise<{ outcome: string }>;

const checkQuotes = (url: string) => mintClient.checkQuotes(url, QUOTE_IDS);
// Only the operator's mints are asked for more at once.
const checkFewQuotes = (url: string) => mintClient.checkQuotes(url, FEW_QUOTE_IDS);
const readInfo = (url: string) => mintClient.readInfo(url);
const readKeysets = (url: string) => ecashClient.readKeysets(url);
const readKeys = (url: string) => ecashClient.readKeys(url, 'a');
const swap = (url: string) => ecashClient.swap(url, [], OUTPUTS);
const checkState = (url: string) => ecashClient.checkState(url, QUOTE_IDS);
const restore = (url: string) => ecashClient.restore(url, OUTPUTS);

const REQUESTS: readonly (readonly [name: string, maxBytes: number, MintRequest])[] = [
  ['a new quote', 64 * KIBIBYTE, (url) => mintClient.createQuote(url, { amountSat: 1 })],
  ['a quote', 64 * KIBIBYTE, (url) => mintClient.readQuote(url, 'a')],
  ['a thousand quotes', 2_064 * KIBIBYTE, checkQuotes],
  ['info', 1_280 * KIBIBYTE, readInfo],
  ['keysets', 256 * KIBIBYTE, readKeysets],
  ['keys', 64 * KIBIBYTE, readKeys],
  ['a swap', 320 * KIBIBYTE, swap],
  ['the states of a thousand proofs', 2_064 * KIBIBYTE, checkState],
  ['restored signatures', 320 * KIBIBYTE, restore],
];

const HOSTILE_BODIES: readonly (readonly [name: string, (bytes: number) => string | Buffer])[] = [
  ...HOSTILE_JSON,
  ['text that is not ASCII', (bytes) => `"${'é'.repeat(bytes / 2 - 1)}"`],
  ['bytes that are not UTF-8', (bytes) => Buffer.alloc(bytes, 0xff)],
];

const BOLT11_SAT = { method: 'bolt11', unit: 'sat' };

const MALFORMED_BODIES: readonly (readonly [name: string, MintRequest, body: object])[] = [
  ['quotes without fields', checkFewQuotes, FEW_QUOTE_IDS.map(() => ({}))],
  [
    'quotes with malformed fields',
    checkFewQuotes,
    FEW_QUOTE_IDS.map((quote) => ({ quote, request: 0, amount: '', state: 0, amount_paid: '' })),
  ],
  ['methods without fields', readInfo, createInfo({}, {})],
  [
    'methods with malformed fields',
    readInfo,
    createInfo(
      { ...BOLT11_SAT, min_amount: '', max_amount: '', options: 0 },
      { ...BOLT11_SAT, commands: 0 },
    ),
  ],
  ['keysets without fields', readKeysets, { keysets: repeat(7_000, () => ({})) }],
  [
    'keysets with malformed fields',
    readKeysets,
    { keysets: repeat(3_000, () => ({ id: 0, unit: 0, active: 0, input_fee_ppk: -1 })) },
  ],
  [
    'malformed keys',
    readKeys,
    { keysets: [{ id: 'a', keys: JSON.parse(fillObject((i) => `"a${i}":0`, 60_000)) }] },
  ],
  [
    'malformed keys of many keysets',
    readKeys,
    { keysets: repeat(2_000, () => ({ id: 'a', keys: { a: 0 } })) },
  ],
  ['malformed signatures', swap, { signatures: OUTPUTS.map(() => ({ dleq: {} })) }],
  ['malformed states of proofs', checkState, { states: QUOTE_IDS.map(() => ({})) }],
  [
    'malformed restored signatures',
    restore,
    { outputs: OUTPUTS.map(() => ({})), signatures: OUTPUTS.map(() => ({})) },
  ],
];

describe('the event loop is not blocked by a response of a mint', () => {
  // The network thread parses all responses alike, so only the largest one has every kind of content.
  it.each(HOSTILE_BODIES)('with %s', async (_name, createBody) => {
    await sendToHostileMint(checkQuotes, 200, () => createBody(2_064 * KIBIBYTE * CHUNK_ALLOWANCE));
  });

  it.each(REQUESTS)('to a request for %s', async (_name, maxBytes, send) => {
    for (const status of [200, 400]) {
      const outcomes = await sendToHostileMint(send, status, () =>
        fillArrayWithNewShapes(maxBytes * CHUNK_ALLOWANCE),
      );
      expect(outcomes).not.toContain('created');
    }
  });

  it.each(MALFORMED_BODIES)('with %s', async (_name, send, body) => {
    await sendToHostileMint(send, 200, () => JSON.stringify(body));
  });

  it('with the states of a thousand quotes with long invoices', async () => {
    const quotes = QUOTE_IDS.map((quote) => ({
      ...{ quote, request: `lnbc1${'q'.repeat(1_500)}`, amount: 21, ...BOLT11_SAT },
      ...{ state: 'PAID', expiry: 1_800_000_000, pubkey: `02${'a'.repeat(64)}` },
      ...{ amount_paid: 21, amount_issued: 0, created_at: 1, updated_at: 1_700_000_000 },
    }));
    await sendToHostileMint(
      async (url) => {
        const result = await checkQuotes(url);
        expect(result).toMatchObject({ observations: { length: QUOTE_IDS.length } });
        return result;
      },
      200,
      () => JSON.stringify(quotes),
    );
  });
});

describe('the event loop is not blocked by a message of a mint', () => {
  it.each<[string, () => string[]]>([
    ...HOSTILE_JSON.map(([name, createJson]): [string, () => string[]] => [
      `with a quote with ${name}`,
      () => [createNotification(createJson(MESSAGE_BYTES - 100))],
    ]),
    ['that arrives with 1,500 others', () => repeat(1_500, () => '[]')],
    [
      'that arrives with 1,500 malformed quotes',
      () => repeat(1_500, () => createNotification('{"quote":"a","state":0,"amount":""}')),
    ],
    [
      'that arrives with those of a thousand quotes',
      () => QUOTE_IDS.map((id) => JSON.stringify(buildQuoteNotification(id, 'UNPAID'))),
    ],
  ])('%s', async (_name, createMessages) => {
    await expectShortDelay(async () => {
      // A new site may send as much as the limit of a site allows.
      const mint = await FakeWebSocketMint.start();
      const observedIds = new AsyncQueue<string>();
      const subscription = new SubscriptionConnection({
        socket: egress.connect(mint.url.replace('http', 'ws')),
        timing: SUBSCRIPTION_TIMING,
        onNotification: ({ quoteId }) => observedIds.push(quoteId),
      });
      await subscription.opened;
      void subscription.subscribe(QUOTE_IDS.with(0, 'last'), 'bolt11_mint_quote');
      const { socket, requests } = await mint.connections.next();
      await requests.next();
      const last = JSON.stringify(buildQuoteNotification('last', 'PAID'));
      const frames = encodeFrames([...createMessages(), last]);
      const delayMs = await measureDelayMs(async () => {
        getTcpSocket(socket).write(frames);
        while ((await observedIds.next()) !== 'last') {
          // Waits until the last message was read.
        }
      });
      subscription.close();
      return delayMs;
    });
  });
});

const EVENT = {
  ...{ id: 'a'.repeat(64), pubkey: 'a'.repeat(64), sig: 'a'.repeat(128) },
  ...{ kind: 10_002, created_at: 1, content: '', tags: [] as string[][] },
};

describe('the event loop is not blocked by a flood of a mint', () => {
  // The first bytes of frames without a payload (RFC 6455 section 5.2).
  it.each([
    ['empty messages', '', '\x81\0'],
    ['empty fragments', '\x01\0', '\0\0'],
    ['short fragments', '\x01\0', '\0\x01a'],
    ['pings', '', '\x89\0'],
    ['pongs', '', '\x8a\0'],
  ])('of %s by WebSocket', async (_name, start, endlessBytes) => {
    await expectShortDelay(async () => {
      const mint = await FakeWebSocketMint.start();
      const socket = egress.connect(mint.url.replace('http', 'ws'));
      const closed = once(socket, 'close');
      await once(socket, 'open');
      const peer = getTcpSocket((await mint.connections.next()).socket);
      peer.write(Buffer.from(start, 'latin1'));
      return await measureDelayMs(async () => {
        flood(peer, Buffer.from(endlessBytes, 'latin1'));
        await closed;
      });
    });
  });
});

describe('the event loop is not blocked by a message of a relay', () => {
  it.each<[string, () => string[]]>([
    ...HOSTILE_JSON.map(([name, createJson]): [string, () => string[]] => [
      `with an event whose tags are ${name}`,
      () => {
        const [start, end] = createEventMessage({ tags: [] }).split('[]');
        return [`${start}${createJson(MESSAGE_BYTES - 600)}${end}`];
      },
    ]),
    [
      'with an event with long text',
      () => [createEventMessage({ content: '"'.repeat(MESSAGE_BYTES / 2 - 600) })],
    ],
    ['with a long reason', () => [`["OK","q0",true,"${'a'.repeat(MESSAGE_BYTES - 100)}"]`]],
    ['that arrives with others', () => repeat(200, () => '[]')],
    [
      'that arrives with malformed events',
      () => repeat(200, () => `["EVENT","q0",{"tags":${fillArray('0', 2_000)}}]`),
    ],
    [
      'that arrives with events with wrong signatures',
      () => repeat(200, () => createEventMessage({ tags: repeat(100, () => ['r', 'a']) })),
    ],
  ])('%s', async (_name, createMessages) => {
    await expectShortDelay(async () => {
      const relay = await FakeWebSocketMint.start();
      const relayUrl = relay.url.replace('http', 'ws');
      const pool = await openPool();
      const attackedQuery = pool.query(relayUrl, {}, 60_000);
      const result = pool.query(relayUrl, {}, 60_000);
      const { socket, requests } = await relay.connections.next();
      await Promise.all([requests.next(), requests.next()]);
      const frames = encodeFrames([...createMessages(), '["EOSE","q0"]', '["EOSE","q1"]']);
      const delayMs = await measureDelayMs(async () => {
        getTcpSocket(socket).write(frames);
        expect((await attackedQuery).outcome).toBe('none');
        expect((await result).outcome).toBe('none');
      });
      await pool.close();
      return delayMs;
    });
  });

  it.each([
    ['invalid URLs', (index: number) => `wss://${index} `],
    ['private hosts', () => `wss://127.0.0.1/${'%41'.repeat(60)}`],
    ['international hosts', (index: number) => `wss://a@é${index}${'一'.repeat(80)}`],
  ])('with a relay list of %s', async (_name, createUrl) => {
    const relay = await FakeWebSocketMint.start();
    const signer = await loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
    const tags = repeat(800, (index) => ['r', createUrl(index)]);
    const event = signer.sign({ kind: EVENT.kind, created_at: 1, tags, content: '' });
    await expectShortDelay(async () => {
      const pool = await openPool();
      const relays = new RelayListCache({
        kind: 10_002,
        allowStale: true,
        relayPool: pool,
        operatorRelays: [relay.url.replace('http', 'ws')],
        allowPrivateNetworks: false,
        monotonicMs: () => performance.now(),
      }).find(signer.pubkey);
      const connection = await relay.connections.next();
      await connection.requests.next();
      const delayMs = await measureDelayMs(async () => {
        connection.send(['EVENT', 'q0', event]);
        expect((await relays).relays).toEqual([]);
      });
      await pool.close();
      return delayMs;
    });
  });
});

async function sendToHostileMint(
  send: MintRequest,
  status: number,
  createBody: () => string | Buffer,
): Promise<string[]> {
  let response = Buffer.alloc(0);
  const mint = await startHostileMint((peer) => peer.end(response), { hasHostileInfo: true });
  onTestFinished(() => mint.close());
  const outcomes: string[] = [];
  await expectShortDelay(async () => {
    const body = Buffer.from(createBody());
    const head = `HTTP/1.1 ${status} Status\r\nContent-Length: ${body.length}\r\n\r\n`;
    response = Buffer.concat([Buffer.from(head), body]);
    return await measureDelayMs(async () => {
      outcomes.push((await send(mint.url)).outcome);
    });
  });
  return outcomes;
}

async function openPool(): Promise<RelayPool> {
  return new RelayPool(egress.connect, {
    signer: null,
    verifyEvent: await loadEventVerifier(),
    clock: Date.now,
    log: createLogger('silent'),
  });
}

/** Encodes text messages as WebSocket frames (RFC 6455 section 5.2), which can be sent together. */
function encodeFrames(messages: readonly string[]): Buffer {
  const frames = messages.map((message) => {
    if (message.length < 126) {
      return Buffer.from(`\x81${String.fromCharCode(message.length)}${message}`, 'latin1');
    }
    const header = Buffer.from([0x81, 127, 0, 0, 0, 0, 0, 0, 0, 0]);
    header.writeUInt32BE(message.length, 6);
    return Buffer.concat([header, Buffer.from(message)]);
  });
  return Buffer.concat(frames);
}

function getTcpSocket(socket: WebSocket): Socket {
  // The types of `ws` do not declare this field.
  return (socket as unknown as { _socket: Socket })._socket;
}

async function measureDelayMs(action: () => Promise<void>): Promise<number> {
  const eventLoopDelay = monitorEventLoopDelay({ resolution: 1 });
  eventLoopDelay.enable();
  // The first tick of the measurement records nothing.
  await delay(2);
  await action();
  // A delay is recorded in the next turn of the event loop.
  await delay(2);
  eventLoopDelay.disable();
  return eventLoopDelay.max / 1e6;
}

function createInfo(method: object, subscription: object): object {
  const methods = repeat(1_500, () => method);
  return { nuts: { 4: { methods }, 17: { supported: repeat(1_500, () => subscription) } } };
}

function createNotification(quoteJson: string): string {
  return `{"method":"subscribe","params":{"payload":${quoteJson}}}`;
}

function createEventMessage(fields: Partial<typeof EVENT>): string {
  return JSON.stringify(['EVENT', 'q0', { ...EVENT, ...fields }]);
}

function repeat<T>(length: number, create: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => create(index));
}
