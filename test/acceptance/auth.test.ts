import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { plainRequest } from '../helpers/plain-http.ts';
import {
  type ApiAnswer,
  request,
  type SigningOptions,
  type TestWallet,
} from '../helpers/wallet.ts';
import { serveBeside, TEST_JWT_SECRET, useWorld } from '../helpers/world.ts';

/** Who may call (spec.md sections 4.7 and 5), by NIP-98 and by token. */

const PROTECTED = '/api/v2/user/info';
const EXCHANGE = '/api/v2/auth/nip98';
const LOCK = '/api/v2/user/lock';

/** The service's clock stands still until a test moves it. */
const START_MS = 1_800_000_000_000;
const START_SECONDS = START_MS / 1000;
let nowMs = START_MS;

const world = useWorld({ surroundings: { clock: () => nowMs } });
let wallet: TestWallet;

beforeEach(() => {
  nowMs = START_MS;
  wallet = world.newWallet();
});

describe('a NIP-98 event', () => {
  it.each([-60, -1, 0, 1, 60])('may be %i s away from our clock', async (offset) => {
    const authorization = sign({ createdAt: START_SECONDS + offset });
    expect(await userBehind(authorization)).toBe(wallet.pubkey);
  });

  it.each([-3600, -61, 61, 3600])('may not be %i s away from our clock', async (offset) => {
    await expectUnauthorized(sign({ createdAt: START_SECONDS + offset }));
  });

  it('needs nothing beyond what NIP-98 asks for, and may carry more', async () => {
    const tags = [
      ['nonce', 'abc'],
      ['u', 'https://elsewhere.example'],
      ['payload', sha256('')],
      ['empty'],
    ];
    expect(await userBehind(sign({ tags }))).toBe(wallet.pubkey);
  });

  it('may be used again, within the same second and in parallel', async () => {
    const authorization = sign();
    const users = await Promise.all(Array.from({ length: 5 }, () => userBehind(authorization)));
    expect(new Set(users)).toEqual(new Set([wallet.pubkey]));
  });

  it.each<[string, (base64: string) => string]>([
    ['padded base64', (base64) => base64],
    ['unpadded base64', (base64) => base64.replaceAll('=', '')],
    ['base64url', (base64) => Buffer.from(base64, 'base64').toString('base64url')],
    ['padded base64url', (base64) => base64.replaceAll('+', '-').replaceAll('/', '_')],
  ])('may be encoded as %s', async (_case, respell) => {
    // Every length modulo 3, so that padding of each kind occurs.
    for (const extra of ['>', '>>', '>>>?']) {
      const base64 = sign({ tags: [['x', extra]] }).slice('Nostr '.length);
      expect(await userBehind(`Nostr ${respell(base64)}`)).toBe(wallet.pubkey);
    }
  });

  it.each(['nostr', 'NOSTR', 'Nostr  '])('may follow the scheme %j', async (scheme) => {
    expect(await userBehind(sign().replace('Nostr', scheme))).toBe(wallet.pubkey);
  });

  it.each<[string, (base: string) => SigningOptions]>([
    ['another kind', () => ({ kind: 1 })],
    ['another method', () => ({ method: 'POST' })],
    ['another host', () => ({ url: `https://elsewhere.example${PROTECTED}` })],
    ['another path', (base) => ({ url: `${base}${EXCHANGE}` })],
  ])('is refused for %s', async (_case, optionsFor) => {
    await expectUnauthorized(sign(optionsFor(world.base)));
  });

  it('is refused where anything was changed after signing', async () => {
    const event = wallet.signedEvent(PROTECTED, 'GET', { createdAt: START_SECONDS });
    const { pubkey } = world.newWallet();
    for (const forged of [
      { ...event, pubkey },
      { ...event, id: '0'.repeat(64) },
      { ...event, sig: '0'.repeat(128) },
      { ...event, sig: `${event.sig.slice(0, -1)}${event.sig.endsWith('0') ? '1' : '0'}` },
      { ...event, sig: undefined },
      { ...event, id: event.id.toUpperCase() },
      [event],
      null,
    ]) {
      await expectUnauthorized(encode(forged), JSON.stringify(forged));
    }
  });

  it('is refused if it is longer than 8 KB, although its signature is valid', async () => {
    const { status, body } = await ask(PROTECTED, sign({ tags: [['padding', 'x'.repeat(6_500)]] }));
    expect(status).toBe(401);
    expect(body.message).toBe('The authorization is longer than 8192 characters.');
  });

  it('is good for any of our public origins, whichever the request came by', async () => {
    const service = await serveBeside(
      world,
      { PUBLIC_ORIGINS: 'https://pay.example,https://two.example:8443' },
      { clock: () => nowMs },
    );
    for (const [origin, status] of [
      ['https://pay.example', 200],
      ['https://PAY.example:443', 200],
      ['https://two.example:8443', 200],
      ['https://two.example', 401],
      [service.url, 401],
    ] as const) {
      const headers = { authorization: sign({ url: origin + PROTECTED }), host: 'pay.example' };
      expect((await plainRequest(service.url, PROTECTED, { headers })).status, origin).toBe(status);
    }
  });
});

describe('a body under NIP-98', () => {
  const spaced = '{ "lockQuotes":  true }';
  const compact = '{"lockQuotes":true}';

  it.each<[string, string[][]]>([
    ['of its bytes', [['payload', sha256(spaced)]]],
    ['of its bytes in upper case', [['payload', sha256(spaced).toUpperCase()]]],
    ['of its compact form, as some wallets hash it', [['payload', sha256(compact)]]],
    ['not at all', []],
  ])('is taken where its hash is that %s', async (_case, tags) => {
    expect((await patchLock(spaced, tags)).status).toBe(200);
  });

  it.each<[string, string]>([
    ['another body', sha256('{"lockQuotes":false}')],
    ['no body', sha256('')],
    ['nothing', ''],
  ])('is refused, and without effect, where the hash is of %s', async (_case, payload) => {
    const { status, body } = await patchLock(spaced, [['payload', payload]]);
    expect({ status, body }).toEqual({
      status: 401,
      body: { error: true, message: 'The payload tag does not fit the body.' },
    });
    expect((await ask(PROTECTED, sign())).body.data.user.lockQuote).toBe(false);
  });
});

describe('no authorization', () => {
  it.each([
    ['none', undefined],
    ['an empty one', ''],
    ['a scheme alone', 'Nostr'],
    ['another scheme', 'Basic YWxpY2U6c2VjcmV0'],
    ['an event that is no base64', 'Nostr !!!!'],
    ['an event that is no JSON', `Nostr ${Buffer.from('{').toString('base64')}`],
    ['a very long event', `Nostr ${'A'.repeat(20_000)}`],
    ['a token that is none', 'Bearer abc.def.ghi'],
    ['two values', 'Bearer a b'],
  ])('is enough where there is %s', async (_case, authorization) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    for (const path of [PROTECTED, EXCHANGE, '/api/v2/wallet/quotes']) {
      const answer = await plainRequest(world.base, path, { headers });
      expectUnauthorizedAnswer(answer);
      expect(answer.headers.get('www-authenticate')).toBe('Nostr, Bearer');
    }
  });
});

describe('a token', () => {
  it('is given for an event, and stands for the user that signed it', async () => {
    const { status, body } = await ask(EXCHANGE, sign({ url: world.base + EXCHANGE }));
    expect({ status, body }).toEqual({
      status: 200,
      body: { error: false, data: { token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/) } },
    });
    expect(await userBehind(`Bearer ${body.data.token}`)).toBe(wallet.pubkey);
    expect(await userBehind(`bearer ${body.data.token}`)).toBe(wallet.pubkey);
  });

  it('is good for thirty minutes and not a second longer', async () => {
    const token = await exchange();
    nowMs = START_MS + 30 * 60_000 - 1;
    expect(await userBehind(`Bearer ${token}`)).toBe(wallet.pubkey);
    nowMs = START_MS + 30 * 60_000;
    await expectUnauthorized(`Bearer ${token}`);
  });

  it('is bound to the User-Agent that it was issued to', async () => {
    const token = await exchange({ 'user-agent': 'wallet/1' });
    expect((await useToken(token, { 'user-agent': 'wallet/1' })).status).toBe(200);
    expectUnauthorizedAnswer(await useToken(token, { 'user-agent': 'wallet/2' }));
    expectUnauthorizedAnswer(await useToken(token, {}));
    // A missing one counts as empty.
    for (const headers of [{}, { 'user-agent': '' }] as Record<string, string>[]) {
      const anonymous = await exchange(headers);
      expect((await useToken(anonymous, {})).status).toBe(200);
      expect((await useToken(anonymous, { 'user-agent': '' })).status).toBe(200);
      expectUnauthorizedAnswer(await useToken(anonymous, { 'user-agent': 'wallet/1' }));
    }
  });

  it('is not exchanged for another token', async () => {
    expectUnauthorizedAnswer(await ask(EXCHANGE, `Bearer ${await exchange()}`));
  });

  it('outlives a change of the secret, while the operator keeps the old one', async () => {
    const clock = () => nowMs;
    const next = 'the next secret, of 32 letters and more';
    const rotating = await serveBeside(
      world,
      { JWT_SECRET: next, JWT_SECRET_PREVIOUS: TEST_JWT_SECRET },
      { clock },
    );
    const rotated = await serveBeside(world, { JWT_SECRET: next }, { clock });

    const old = await exchange({});
    const fresh = await exchange({}, rotating.publicOrigin);
    const statusAt = async (base: string, token: string) =>
      (await useToken(token, {}, base)).status;
    expect(await statusAt(rotating.url, old)).toBe(200);
    expect(await statusAt(rotating.url, fresh)).toBe(200);
    expect(await statusAt(rotated.url, fresh)).toBe(200);
    expect(await statusAt(rotated.url, old)).toBe(401);
    expect(await statusAt(world.base, fresh)).toBe(401);
  });
});

it('public routes ask for nothing, and do not mind a wrong authorization', async () => {
  for (const path of [
    '/api/v2/info',
    `/.well-known/lnurlp/${wallet.npub}`,
    '/.well-known/nostr.json?name=alice',
    `/lnurl/verify/${'0'.repeat(64)}`,
  ]) {
    expect((await ask(path, 'Bearer nonsense')).status, path).toBe(200);
  }
});

/** An authorization for {@link PROTECTED}, right now. */
function sign(options: SigningOptions = {}): string {
  return wallet.sign(PROTECTED, 'GET', { createdAt: START_SECONDS, ...options });
}

function encode(event: unknown): string {
  return `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
}

function ask(path: string, authorization: string): Promise<ApiAnswer> {
  return request(world.base, path, { headers: { authorization } });
}

async function userBehind(authorization: string): Promise<string | undefined> {
  return (await ask(PROTECTED, authorization)).body.data?.user.pubkey;
}

async function expectUnauthorized(authorization: string, what?: string): Promise<void> {
  expectUnauthorizedAnswer(await ask(PROTECTED, authorization), what);
}

function expectUnauthorizedAnswer({ status, headers, body }: ApiAnswer, what?: string): void {
  expect({ status, body }, what).toEqual({
    status: 401,
    body: { error: true, message: expect.any(String) },
  });
  expect(headers.get('access-control-allow-origin')).toBe('*');
}

function patchLock(body: string, tags: string[][]): Promise<ApiAnswer> {
  const authorization = wallet.sign(LOCK, 'PATCH', { createdAt: START_SECONDS, tags });
  return request(world.base, LOCK, {
    method: 'PATCH',
    headers: { authorization, 'content-type': 'application/json' },
    body,
  });
}

/** A token for these headers; without any, for those that `fetch` sends by itself. */
async function exchange(headers?: Record<string, string>, base = world.base): Promise<string> {
  const authorization = sign({ url: base + EXCHANGE });
  const { body } =
    headers === undefined
      ? await request(base, EXCHANGE, { headers: { authorization } })
      : await plainRequest(base, EXCHANGE, { headers: { authorization, ...headers } });
  return body.data.token;
}

function useToken(
  token: string,
  headers: Record<string, string>,
  base = world.base,
): Promise<ApiAnswer> {
  return plainRequest(base, PROTECTED, {
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
