import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { MintAnomalies } from '../../src/mint/mint-anomalies.ts';
import { MintClient } from '../../src/mint/mint-client.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import {
  flood,
  type HostileMint,
  type Hostility,
  startHostileMint,
  trickle,
} from '../helpers/hostile-mint.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { type LoopbackTrap, setLoopbackTrap } from '../helpers/loopback-trap.ts';
import { chooseMint } from '../helpers/own-mint.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** A mint has so long for an answer here; in production it is 15 s. */
const TOTAL_TIMEOUT_MS = 1_000;

/** A payer whom a hostile mint kept waiting has an answer by then, on a busy machine too. */
const IN_TIME_MS = 8 * TOTAL_TIMEOUT_MS;

/** To parse 3 MB of JSON takes some 150 ms; to look at each of its million parts takes seconds. */
const LONGEST_STALL_MS = 1_000;

/** Just within what an answer may have; endless ones are cut off beyond it. */
const LARGE_BODY_BYTES = 3.5 * 1024 * 1024;

/** What is left in memory after many attacks may differ by so much from what was before. */
const MEMORY_TOLERANCE_BYTES = 5 * 1024 * 1024;

/** What a payer hears of a mint in trouble (LUD-06), whatever the trouble is. */
const MINT_TROUBLE = {
  status: 500,
  body: {
    status: 'ERROR',
    reason: 'The recipient’s mint cannot create an invoice right now. Try again later.',
  },
};

const OK = 'HTTP/1.1 200 OK\r\n';
const JSON_HEAD = `${OK}Content-Type: application/json\r\n`;

/** 32 MB of blanks in 32 kB. */
const BOMB_BODY = gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '));
const GZIP_BOMB = Buffer.concat([
  Buffer.from(`${JSON_HEAD}Content-Encoding: gzip\r\nContent-Length: ${BOMB_BODY.length}\r\n\r\n`),
  BOMB_BODY,
]);

/** 3 MB. */
const MILLION_OBJECTS = `[${Array.from({ length: 1_000_000 }, () => '{}').join(',')}]`;

const HOSTILITIES: readonly (readonly [string, Hostility])[] = [
  ['sends a gzip bomb', (peer) => peer.write(GZIP_BOMB)],
  ['never ends its body', (peer) => begin(peer, `${JSON_HEAD}\r\n`, '                ')],
  [
    'never ends its chunks, of a byte each',
    (peer) => begin(peer, `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'),
  ],
  [
    'never ends the extension of a chunk',
    (peer) => begin(peer, `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n1;a=`, 'b'),
  ],
  [
    'never ends its trailers',
    (peer) =>
      begin(peer, `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n`, 'X-More: more\r\n'),
  ],
  ['never ends its headers', (peer) => begin(peer, OK, 'X-More: more and more\r\n')],
  ['never ends one header', (peer) => begin(peer, `${OK}X-Long: `, 'x')],
  ['never ends its status line', (peer) => begin(peer, 'HTTP/1.1 200 ', 'O')],
  ['sends a thousand cookies', (peer) => peer.write(thousandCookies())],
  ['never answers', () => undefined],
  ['says a byte now and then', (peer) => trickle(peer, `${JSON_HEAD}X: ${'x'.repeat(1e4)}`, 10)],
  [
    'says a byte of its body now and then',
    (peer) => {
      peer.write(`${JSON_HEAD}\r\n`);
      trickle(peer, '{"quote": "', 10);
    },
  ],
  ['nests its JSON two million deep', (peer) => peer.write(whole(nested()))],
  ['nests JSON that never closes', (peer) => peer.write(whole('['.repeat(LARGE_BODY_BYTES)))],
  ['sends JSON of another kind', (peer) => peer.write(whole('"quote"'))],
  ['answers in HTTP/1.0 without a length', (peer) => peer.end('HTTP/1.0 200 OK\r\n\r\n{}')],
  ['answers in HTTP/0.9', (peer) => peer.end('{"quote": "1"}')],
  ['answers in HTTP/2', (peer) => peer.end('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
  ['hangs up at once', (peer) => peer.destroy()],
  ['resets the connection', (peer) => peer.resetAndDestroy()],
  ['hangs up in the middle of its body', (peer) => peer.end(whole('{"quote":').slice(0, -4))],
  ['promises more than it sends', (peer) => peer.write(`${OK}Content-Length: 100\r\n\r\n{}`)],
  ['sends more than it promised', (peer) => peer.write(`${OK}Content-Length: 2\r\n\r\n{}{}{}`)],
  [
    'has two lengths',
    (peer) => peer.write(`${OK}Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}`),
  ],
  ['has a length below nothing', (peer) => peer.write(`${OK}Content-Length: -1\r\n\r\n{}`)],
  [
    'promises more than there are bytes in the world',
    (peer) => peer.write(`${OK}Content-Length: 99999999999999999999999\r\n\r\n{}`),
  ],
  [
    'has a length and chunks',
    (peer) =>
      peer.write(
        `${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      ),
  ],
  [
    'switches protocols',
    (peer) =>
      peer.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n'),
  ],
  ['always says to continue', (peer) => flood(peer, 'HTTP/1.1 100 Continue\r\n\r\n')],
  ['never ends its early hints', (peer) => flood(peer, 'HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n')],
  ['sends a million empty objects', (peer) => peer.write(whole(MILLION_OBJECTS))],
  ['says 200 and sends a page', (peer) => peer.write(whole('<html>'.repeat(10_000)))],
  ['answers with a status that there is not', (peer) => peer.write('HTTP/1.1 999 No\r\n\r\n')],
];

let world: World;
let trap: LoopbackTrap;
let logs: LogCapture;

beforeAll(async () => {
  logs = new LogCapture('error');
  world = await openWorld({
    surroundings: { log: logs.log, fetchLimits: { totalTimeoutMs: TOTAL_TIMEOUT_MS } },
  });
  trap = await setLoopbackTrap();
});
afterAll(async () => {
  await trap.close();
  await world.close();
});

describe('a mint that', () => {
  it.each(HOSTILITIES)(
    '%s costs its own payers an error, and nobody else anything',
    async (_what, beHostile) => {
      const mint = await hostileMint(beHostile);
      const wallet = world.newWallet();
      await choose(wallet, mint);
      const begunAt = performance.now();
      const failed = askInvoice(wallet);
      await mint.firstVictim;
      const other = await world.askInvoice(world.newWallet(), 21);
      expect(other.pr).toMatch(/^ln/);
      expect(await failed).toEqual(MINT_TROUBLE);
      expect(performance.now() - begunAt).toBeLessThan(IN_TIME_MS);
      expect(logs.lines).toEqual([]);
    },
  );

  it('is hostile to who chooses it cannot be chosen, whatever it does', async () => {
    const answers = await Promise.all(
      HOSTILITIES.map(async ([what, beHostile]) => {
        const mint = await hostileMint(beHostile, { isHostileAtOnce: true });
        const { status, body } = await chooseMint(world.newWallet(), mint.url);
        return { what, status, message: body.message };
      }),
    );
    const message = 'Could not get mint info. Is this a valid mint url?';
    expect(answers).toEqual(HOSTILITIES.map(([what]) => ({ what, status: 400, message })));
    expect(logs.lines).toEqual([]);
  });

  it('redirects to the inside brings no connection there', async () => {
    const location = `http://127.0.0.1:${trap.port}/v1/mint/quote/bolt11`;
    for (const status of [301, 302, 303, 307, 308]) {
      const mint = await hostileMint((peer) =>
        peer.write(
          `HTTP/1.1 ${status} Over there\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`,
        ),
      );
      const wallet = world.newWallet();
      await choose(wallet, mint);
      expect(await askInvoice(wallet)).toEqual(MINT_TROUBLE);
      expect(mint.victims()).toBeGreaterThan(0);
    }
    expect(trap.arrivals()).toBe(0);
  });
});

describe('a batch that', () => {
  it.each([
    ['is answered with a million empty objects', whole(MILLION_OBJECTS)],
    [
      'is refused in a million empty objects',
      whole(`{"detail":${MILLION_OBJECTS}}`).replace('200 OK', '400 Bad Request'),
    ],
  ])('%s stops nobody', async (_what, answer) => {
    const mint = await hostileMint((peer) => peer.write(answer));
    const guarded = new GuardedFetch({ allowPrivateNetworks: true });
    onTestFinished(() => guarded.close());
    const anomalies = new MintAnomalies(logs.log);
    const client = new MintClient({ fetch: guarded, anomalies, clock: Date.now });
    const quoteIds = Array.from({ length: 1_000 }, (_, index) => `quote-${index}`);
    const stalls = monitorEventLoopDelay({ resolution: 10 });
    stalls.enable();
    const checked = client.checkQuotes(mint.url, quoteIds);
    await mint.firstVictim;
    const other = await world.askInvoice(world.newWallet(), 21);
    expect(other.pr).toMatch(/^ln/);
    expect(['unavailable', 'refused']).toContain((await checked).outcome);
    stalls.disable();
    expect(stalls.max / 1e6).toBeLessThan(LONGEST_STALL_MS);
  });
});

describe('many hostile mints', () => {
  it('leave memory as it was', async () => {
    // The first time, all that is kept for good is made.
    await attackOnce();
    const before = await memoryInUse();
    for (let round = 0; round < 3; round += 1) {
      await attackOnce();
    }
    expect((await memoryInUse()) - before).toBeLessThan(MEMORY_TOLERANCE_BYTES);
  });
});

describe('mints that say what they can do and then hold on to every request', () => {
  it('keep nobody from the mint that the operator has named', async () => {
    const small = await openWorld({
      surroundings: { fetchLimits: { totalTimeoutMs: TOTAL_TIMEOUT_MS, maxInFlight: 2 } },
    });
    onTestFinished(() => small.close());
    const mints = [await hostileMint(() => undefined), await hostileMint(() => undefined)] as const;
    const wallets = [small.newWallet(), small.newWallet()] as const;
    await choose(wallets[0], mints[0]);
    await choose(wallets[1], mints[1]);
    const failing = wallets.map((wallet) => askInvoice(wallet, small));
    await Promise.all(mints.map(({ firstVictim }) => firstVictim));
    const invoice = await small.askInvoice(small.newWallet(), 21);
    expect(invoice.pr).toMatch(/^ln/);
    expect(await Promise.all(failing)).toEqual([MINT_TROUBLE, MINT_TROUBLE]);
  });
});

/** Every hostility at the same time, each by a mint that nobody was warned of. */
async function attackOnce(): Promise<void> {
  const victims = await Promise.all(
    HOSTILITIES.map(async ([, beHostile]) => {
      const mint = await startHostileMint(beHostile);
      const wallet = world.newWallet();
      await choose(wallet, mint);
      expect(await askInvoice(wallet)).toEqual(MINT_TROUBLE);
      await mint.close();
      return mint.victims();
    }),
  );
  // So many at once keep one another busy: one or the other may be given up before it begins.
  expect(victims.filter((count) => count > 0).length).toBeGreaterThan(HOSTILITIES.length / 2);
}

async function hostileMint(
  beHostile: Hostility,
  options: { isHostileAtOnce?: boolean } = {},
): Promise<HostileMint> {
  const mint = await startHostileMint(beHostile, options);
  onTestFinished(() => mint.close());
  return mint;
}

async function choose(wallet: TestWallet, { url }: HostileMint): Promise<void> {
  expect((await chooseMint(wallet, url)).status).toBe(200);
}

async function askInvoice(
  wallet: TestWallet,
  { service }: World = world,
): Promise<{ status: number; body: unknown }> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  const { status, body } = await request(service.url, path);
  return { status, body };
}

function thousandCookies(): string {
  const cookies = Array.from({ length: 1_000 }, (_, index) => `Set-Cookie: c${index}=${index}\r\n`);
  return `${JSON_HEAD}${cookies.join('')}Content-Length: 2\r\n\r\n{}`;
}

function nested(): string {
  return '['.repeat(LARGE_BODY_BYTES / 2) + ']'.repeat(LARGE_BODY_BYTES / 2);
}

function whole(body: string): string {
  return `${JSON_HEAD}Content-Length: ${body.length}\r\n\r\n${body}`;
}

function begin(peer: Parameters<Hostility>[0], beginning: string, more: string): void {
  peer.write(beginning);
  flood(peer, more);
}

/**
 * In bytes, after what is garbage has been taken away: the least of a few readings, since connections
 * that have just ended give up what they hold one after the other.
 */
async function memoryInUse(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  let least = Number.POSITIVE_INFINITY;
  for (let reading = 0; reading < 20; reading += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    least = Math.min(least, heapUsed + external);
  }
  return least;
}
