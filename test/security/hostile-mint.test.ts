import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MintClient } from '../../src/mints/mint-client.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import {
  flood,
  type HostileBehavior,
  type HostileMint,
  startHostileMint,
  trickle,
} from '../helpers/hostile-mint.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import {
  createTestEnvironment,
  setMint,
  type TestEnvironment,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { requestJson, type TestWallet } from '../helpers/test-wallet.ts';

/** The timeout of a request to a mint; 15 s in production. */
const TOTAL_TIMEOUT_MS = 1_000;

/** The payer gets a response within this time, even on a busy machine. */
const IN_TIME_MS = 8 * TOTAL_TIMEOUT_MS;

/** Parsing 3 MB of JSON takes about 150 ms; validating each of a million objects takes seconds. */
const LONGEST_STALL_MS = 1_000;

/** Just within the response size limit. */
const LARGE_BODY_BYTES = 3.5 * 1024 * 1024;

/** How much memory may grow over many attacks. */
const MEMORY_TOLERANCE_BYTES = 5 * 1024 * 1024;

/** The payer's response to any failure of the mint (LUD-06). */
const MINT_TROUBLE = {
  status: 500,
  body: {
    status: 'ERROR',
    reason: 'The recipient’s mint cannot create an invoice right now. Try again later.',
  },
};

const OK = 'HTTP/1.1 200 OK\r\n';
const JSON_HEAD = `${OK}Content-Type: application/json\r\n`;

/** 32 MB of spaces in 32 kB. */
const BOMB_BODY = gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '));
const GZIP_BOMB = Buffer.concat([
  Buffer.from(`${JSON_HEAD}Content-Encoding: gzip\r\nContent-Length: ${BOMB_BODY.length}\r\n\r\n`),
  BOMB_BODY,
]);

/** 3 MB. */
const MILLION_OBJECTS = `[${Array.from({ length: 1_000_000 }, () => '{}').join(',')}]`;

const CHUNKED = `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n`;

/** What a mint sends first and then repeats without end, or what it does with the connection. */
const HOSTILITIES = (
  [
    ['sends a gzip bomb', GZIP_BOMB],
    ['never ends its body', `${JSON_HEAD}\r\n`, ' '.repeat(16)],
    ['never ends its chunks, of a byte each', CHUNKED, '1\r\n \r\n'],
    ['never ends the extension of a chunk', `${CHUNKED}1;a=`, 'b'],
    ['never ends its trailers', `${CHUNKED}0\r\n`, 'X-More: more\r\n'],
    ['never ends its headers', OK, 'X-More: more and more\r\n'],
    ['never ends one header', `${OK}X-Long: `, 'x'],
    ['never ends its status line', 'HTTP/1.1 200 ', 'O'],
    ['sends a thousand cookies', thousandCookies()],
    ['never answers', () => undefined],
    ['sends a byte now and then', (peer) => trickle(peer, `${JSON_HEAD}X: ${'x'.repeat(1e4)}`, 10)],
    [
      'sends a byte of its body now and then',
      (peer) => {
        peer.write(`${JSON_HEAD}\r\n`);
        trickle(peer, '{"quote": "', 10);
      },
    ],
    ['nests its JSON two million deep', whole(nested())],
    ['nests JSON that never closes', whole('['.repeat(LARGE_BODY_BYTES))],
    ['sends JSON of another kind', whole('"quote"')],
    ['answers in HTTP/1.0 without a length', (peer) => peer.end('HTTP/1.0 200 OK\r\n\r\n{}')],
    ['answers in HTTP/0.9', (peer) => peer.end('{"quote": "1"}')],
    ['answers in HTTP/2', (peer) => peer.end('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['hangs up at once', (peer) => peer.destroy()],
    ['resets the connection', (peer) => peer.resetAndDestroy()],
    ['hangs up in the middle of its body', (peer) => peer.end(whole('{"quote":').slice(0, -4))],
    ['promises more than it sends', `${OK}Content-Length: 100\r\n\r\n{}`],
    ['sends more than it promised', `${OK}Content-Length: 2\r\n\r\n{}{}{}`],
    ['has two lengths', `${OK}Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}`],
    ['has a negative length', `${OK}Content-Length: -1\r\n\r\n{}`],
    ['has an enormous length', `${OK}Content-Length: 99999999999999999999999\r\n\r\n{}`],
    [
      'has a length and chunks',
      `${CHUNKED.trim()}\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    ],
    ['switches protocols', 'HTTP/1.1 101 Hi\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n'],
    ['repeats 100 Continue', '', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['never ends its early hints', '', 'HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n'],
    ['sends a million empty objects', whole(MILLION_OBJECTS)],
    ['says 200 and sends a page', whole('<html>'.repeat(10_000))],
    ['answers with an unknown status', 'HTTP/1.1 999 No\r\n\r\n'],
  ] as const satisfies readonly (readonly [string, string | Buffer | HostileBehavior, string?])[]
).map(([what, act, repeated]): [string, HostileBehavior] => [
  what,
  (peer) => {
    if (typeof act === 'function') {
      act(peer);
    } else {
      peer.write(act);
    }
    if (repeated !== undefined) {
      flood(peer, repeated);
    }
  },
]);

const logs = new LogCapture('error');
const world = useTestEnvironment({
  overrides: { log: logs.log, fetchLimits: { totalTimeoutMs: TOTAL_TIMEOUT_MS } },
});

describe('a hostile mint', () => {
  it.each(HOSTILITIES)('that %s fails only its own payers', async (_what, beHostile) => {
    const mint = await hostileMint(beHostile);
    const wallet = world.newWallet();
    await choose(wallet, mint);
    const begunAt = performance.now();
    const failed = askInvoice(wallet);
    await mint.firstAttackedRequest;
    const other = await world.requestInvoice(world.newWallet(), 21);
    expect(other.pr).toMatch(/^ln/);
    expect(await failed).toEqual(MINT_TROUBLE);
    expect(performance.now() - begunAt).toBeLessThan(IN_TIME_MS);
    expect(logs.lines).toEqual([]);
  });

  it('cannot be chosen', async () => {
    const answers = await Promise.all(
      HOSTILITIES.map(async ([what, beHostile]) => {
        const mint = await hostileMint(beHostile, { shouldAttackInfoRequests: true });
        const { status, body } = await setMint(world.newWallet(), mint.url);
        return { what, status, message: body.message };
      }),
    );
    const message = 'Could not get mint info. Is this a valid mint url?';
    expect(answers).toEqual(HOSTILITIES.map(([what]) => ({ what, status: 400, message })));
    expect(logs.lines).toEqual([]);
  });
});

describe('a batch that a hostile mint', () => {
  it.each([
    ['answers with a million empty objects', whole(MILLION_OBJECTS)],
    [
      'rejects with a million empty objects',
      whole(`{"detail":${MILLION_OBJECTS}}`).replace('200 OK', '400 Bad Request'),
    ],
  ])('%s does not block the event loop', async (_what, answer) => {
    const mint = await hostileMint((peer) => peer.write(answer));
    const guarded = new GuardedFetch({ allowPrivateNetworks: true });
    onTestFinished(() => guarded.close());
    const client = new MintClient({ fetch: guarded, clock: Date.now });
    const quoteIds = Array.from({ length: 1_000 }, (_, index) => `quote-${index}`);
    const stalls = monitorEventLoopDelay({ resolution: 10 });
    stalls.enable();
    const checked = client.checkQuotes(mint.url, quoteIds);
    await mint.firstAttackedRequest;
    const other = await world.requestInvoice(world.newWallet(), 21);
    expect(other.pr).toMatch(/^ln/);
    expect(['unavailable', 'rejected']).toContain((await checked).outcome);
    stalls.disable();
    expect(stalls.max / 1e6).toBeLessThan(LONGEST_STALL_MS);
  });
});

describe('many hostile mints', () => {
  it('do not fill the memory', async () => {
    // The first round fills caches.
    await attackOnce();
    const before = await memoryInUse();
    for (let round = 0; round < 3; round += 1) {
      await attackOnce();
    }
    expect((await memoryInUse()) - before).toBeLessThan(MEMORY_TOLERANCE_BYTES);
  });
});

describe('mints that never respond', () => {
  it('do not block the default mint, even with few connections', async () => {
    const small = await createTestEnvironment({
      overrides: { fetchLimits: { totalTimeoutMs: TOTAL_TIMEOUT_MS, maxInFlight: 2 } },
    });
    onTestFinished(() => small.close());
    const mints = [await hostileMint(() => undefined), await hostileMint(() => undefined)] as const;
    const wallets = [small.newWallet(), small.newWallet()] as const;
    await choose(wallets[0], mints[0]);
    await choose(wallets[1], mints[1]);
    const failing = wallets.map((wallet) => askInvoice(wallet, small));
    await Promise.all(mints.map(({ firstAttackedRequest: firstVictim }) => firstVictim));
    const invoice = await small.requestInvoice(small.newWallet(), 21);
    expect(invoice.pr).toMatch(/^ln/);
    expect(await Promise.all(failing)).toEqual([MINT_TROUBLE, MINT_TROUBLE]);
  });
});

/** Runs every attack concurrently, each at its own mint. */
async function attackOnce(): Promise<void> {
  const victims = await Promise.all(
    HOSTILITIES.map(async ([, beHostile]) => {
      const mint = await startHostileMint(beHostile);
      const wallet = world.newWallet();
      await choose(wallet, mint);
      expect(await askInvoice(wallet)).toEqual(MINT_TROUBLE);
      await mint.close();
      return mint.attackedRequestCount();
    }),
  );
  // With this many attacks, some requests time out before they are sent.
  expect(victims.filter((count) => count > 0).length).toBeGreaterThan(HOSTILITIES.length / 2);
}

async function hostileMint(
  beHostile: HostileBehavior,
  options: { shouldAttackInfoRequests?: boolean } = {},
): Promise<HostileMint> {
  const mint = await startHostileMint(beHostile, options);
  onTestFinished(() => mint.close());
  return mint;
}

async function choose(wallet: TestWallet, { url }: HostileMint): Promise<void> {
  expect((await setMint(wallet, url)).status).toBe(200);
}

async function askInvoice(
  wallet: TestWallet,
  { service }: TestEnvironment = world,
): Promise<{ status: number; body: unknown }> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  const { status, body } = await requestJson(service.url, path);
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

/** Bytes in use: the lowest of several readings, because closed connections release theirs one by one. */
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
