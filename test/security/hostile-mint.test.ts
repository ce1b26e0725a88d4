import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import {
  flood,
  type HostileMint,
  type HostileResponder,
  startHostileMint,
  trickle,
} from '../helpers/mints/fake-hostile-mint.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { setMint, useTestEnvironment } from '../helpers/service/test-environment.ts';

/** For each request to a mint. The mint that is not hostile responds in time even on a busy machine. */
const MINT_TIMEOUT_MS = 4_000;

/** Below the response size limit of 4 MiB. */
const LARGE_BODY_BYTES = 3.5 * 1024 * 1024;

/** Growth of memory usage over a round of attacks that does not count as a leak. */
const ALLOWED_MEMORY_GROWTH_BYTES = 4 * 1024 * 1024;

const MINT_FAILURE_RESPONSE = {
  status: 500,
  body: {
    status: 'ERROR',
    reason: 'The recipient’s mint cannot create an invoice right now. Try again later.',
  },
};

const OK = 'HTTP/1.1 200 OK\r\n';
const JSON_HEAD = `${OK}Content-Type: application/json\r\n`;

/** 32 MiB of spaces, compressed to about 32 kB. */
const BOMB_BODY = gzipSync(Buffer.alloc(32 * 1024 * 1024, ' '));
const GZIP_BOMB = Buffer.concat([
  Buffer.from(`${JSON_HEAD}Content-Encoding: gzip\r\nContent-Length: ${BOMB_BODY.length}\r\n\r\n`),
  BOMB_BODY,
]);

const MILLION_OBJECTS = `[${Array.from({ length: 1_000_000 }, () => '{}').join(',')}]`;

const CHUNKED_HEAD = `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n`;

const ATTACKS = (
  [
    ['sends a gzip bomb', GZIP_BOMB],
    ['sends a body without end', `${JSON_HEAD}\r\n`, ' '.repeat(16)],
    ['sends one-byte chunks without end', CHUNKED_HEAD, '1\r\n \r\n'],
    ['sends a chunk extension without end', `${CHUNKED_HEAD}1;a=`, 'b'],
    ['sends trailers without end', `${CHUNKED_HEAD}0\r\n`, 'X-More: more\r\n'],
    ['sends headers without end', OK, 'X-More: more and more\r\n'],
    ['sends a header value without end', `${OK}X-Long: `, 'x'],
    ['sends a status line without end', 'HTTP/1.1 200 ', 'O'],
    ['sends 1,000 cookies', thousandCookies()],
    ['never responds', () => undefined],
    ['sends its headers slowly', (peer) => trickle(peer, `${OK}X: ${'x'.repeat(1e4)}`, 10)],
    ['sends its body slowly', (peer) => trickle(peer, `${OK}\r\n${'{"quote": "'.repeat(99)}`, 10)],
    ['sends deeply nested JSON', jsonResponse(nestedJson())],
    ['sends unclosed JSON arrays', jsonResponse('['.repeat(LARGE_BODY_BYTES))],
    ['sends a JSON string instead of an object', jsonResponse('"quote"')],
    ['responds in HTTP/1.0', (peer) => peer.end('HTTP/1.0 200 OK\r\n\r\n{}')],
    ['responds in HTTP/0.9', (peer) => peer.end('{"quote": "1"}')],
    ['responds in HTTP/2', (peer) => peer.end('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['closes the connection immediately', (peer) => peer.destroy()],
    ['resets the connection', (peer) => peer.resetAndDestroy()],
    ['ends in the middle of its body', (peer) => peer.end(jsonResponse('{"quote":').slice(0, -4))],
    ['sends a body shorter than its Content-Length', `${OK}Content-Length: 100\r\n\r\n{}`],
    ['sends a body longer than its Content-Length', `${OK}Content-Length: 2\r\n\r\n{}{}{}`],
    ['sends two lengths', `${OK}Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}`],
    ['sends a negative Content-Length', `${OK}Content-Length: -1\r\n\r\n{}`],
    ['sends an enormous Content-Length', `${OK}Content-Length: 99999999999999999999999\r\n\r\n{}`],
    [
      'sends a Content-Length and chunks',
      `${CHUNKED_HEAD.trim()}\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    ],
    ['responds with 101', 'HTTP/1.1 101 Hi\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n'],
    ['sends 100 Continue without end', '', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['sends 103 Early Hints without end', '', 'HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n'],
    ['sends an array of a million empty objects', jsonResponse(MILLION_OBJECTS)],
    ['responds with 200 and an HTML page', jsonResponse('<html>'.repeat(10_000))],
    ['responds with the unknown status 999', 'HTTP/1.1 999 No\r\n\r\n'],
  ] as const satisfies readonly (readonly [string, string | Buffer | HostileResponder, string?])[]
).map(([description, start, endlessBytes]): [string, HostileResponder] => [
  description,
  (peer) => {
    if (typeof start === 'function') {
      start(peer);
    } else {
      peer.write(start);
    }
    if (endlessBytes !== undefined) {
      flood(peer, endlessBytes);
    }
  },
]);

const logs = new LogCapture('error');
const environment = useTestEnvironment({
  overrides: { log: logs.log, fetchLimits: { totalTimeoutMs: MINT_TIMEOUT_MS } },
});

describe('a hostile mint', () => {
  it('fails only payments to its own users, and leaves no memory in use', async () => {
    // The first round fills caches.
    await attackOnce();
    const bytesBefore = await measureMemoryBytes();
    await attackOnce();
    expect(await measureMemoryBytes()).toBeLessThan(bytesBefore + ALLOWED_MEMORY_GROWTH_BYTES);
    expect(logs.lines).toEqual([]);
  });

  it('is rejected as the mint of a user when it attacks requests for its info', async () => {
    const responses = await Promise.all(
      ATTACKS.map(async ([name, attack]) => {
        const mint = await startHostileMint(attack, { hasHostileInfo: true });
        onTestFinished(() => mint.close());
        const { status, body } = await setMint(environment.newWallet(), mint.url);
        return { name, status, message: body.message };
      }),
    );
    const message = 'Could not get mint info. Is this a valid mint url?';
    expect(responses).toEqual(ATTACKS.map(([name]) => ({ name, status: 400, message })));
    expect(logs.lines).toEqual([]);
  });
});

async function attackOnce(): Promise<void> {
  const users: { name: string; wallet: RecipientClient; mint: HostileMint }[] = [];
  // One after the other, so that their infos arrive in time on a busy machine.
  for (const [name, attack] of ATTACKS) {
    const wallet = environment.newWallet();
    const mint = await startHostileMint(attack);
    // The network thread may start too slowly for the first info.
    await eventually(async () => expect((await setMint(wallet, mint.url)).status).toBe(200));
    users.push({ name, wallet, mint });
  }
  await Promise.all(
    users.map(async ({ name, wallet, mint }) => {
      let response: unknown;
      const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
      const request = requestJson(environment.service.url, path).then(({ status, body }) => {
        response = { status, body };
      });
      await Promise.race([mint.firstHostileResponse, request]);
      const { pr } = await environment.requestInvoice(environment.newWallet(), 21);
      expect(pr, name).toMatch(/^ln/);
      // The payer gets a response although the mint may never end its own.
      await eventually(() => expect(response, name).toEqual(MINT_FAILURE_RESPONSE));
      await mint.close();
    }),
  );
}

function thousandCookies(): string {
  const cookies = Array.from({ length: 1_000 }, (_, index) => `Set-Cookie: c${index}=${index}\r\n`);
  return `${JSON_HEAD}${cookies.join('')}Content-Length: 2\r\n\r\n{}`;
}

function nestedJson(): string {
  return '['.repeat(LARGE_BODY_BYTES / 2) + ']'.repeat(LARGE_BODY_BYTES / 2);
}

function jsonResponse(body: string): string {
  return `${JSON_HEAD}Content-Length: ${body.length}\r\n\r\n${body}`;
}

/** Returns the lowest of several readings, because closed connections release their memory one by one. */
async function measureMemoryBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  let lowestBytes = Number.POSITIVE_INFINITY;
  for (let reading = 0; reading < 20; reading += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    lowestBytes = Math.min(lowestBytes, heapUsed + external);
  }
  return lowestBytes;
}
