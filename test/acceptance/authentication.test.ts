import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { sendRawRequest } from '../helpers/raw-http.ts';
import {
  TEST_JWT_SECRET,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import {
  type ApiResponse,
  type Nip98Overrides,
  requestJson,
  type TestWallet,
} from '../helpers/test-wallet.ts';

/** See spec.md sections 4.7 and 5. */

const PROTECTED = '/api/v2/user/info';
const EXCHANGE = '/api/v2/auth/nip98';
const LOCK = '/api/v2/user/lock';

const START_MS = 1_800_000_000_000;
const START_SECONDS = START_MS / 1000;
let nowMs = START_MS;

const world = useTestEnvironment({ overrides: { clock: () => nowMs } });
let wallet: TestWallet;

beforeEach(() => {
  nowMs = START_MS;
  wallet = world.newWallet();
});

describe('a NIP-98 event', () => {
  it.each([-60, -1, 0, 1, 60])(
    'is valid if its time differs from the server clock by %i s',
    async (offset) => {
      const authorization = sign({ createdAt: START_SECONDS + offset });
      expect(await fetchUserPubkey(authorization)).toBe(wallet.pubkey);
    },
  );

  it.each([-3600, -61, 61, 3600])(
    'is rejected if its time differs from the server clock by %i s',
    async (offset) => {
      await expectUnauthorized(sign({ createdAt: START_SECONDS + offset }));
    },
  );

  it('may have tags that NIP-98 does not define', async () => {
    const tags = [
      ['nonce', 'abc'],
      ['u', 'https://elsewhere.example'],
      ['payload', sha256('')],
      ['empty'],
    ];
    expect(await fetchUserPubkey(sign({ tags }))).toBe(wallet.pubkey);
  });

  it('may be used several times, also in parallel', async () => {
    const authorization = sign();
    const users = await Promise.all(
      Array.from({ length: 5 }, () => fetchUserPubkey(authorization)),
    );
    expect(new Set(users)).toEqual(new Set([wallet.pubkey]));
  });

  it.each<[string, (base64: string) => string]>([
    ['padded base64', (base64) => base64],
    ['unpadded base64', (base64) => base64.replaceAll('=', '')],
    ['base64url', (base64) => Buffer.from(base64, 'base64').toString('base64url')],
    ['padded base64url', (base64) => base64.replaceAll('+', '-').replaceAll('/', '_')],
  ])('is accepted as %s', async (_case, reencode) => {
    // Every length modulo 3, so that each padding length occurs.
    for (const extra of ['>', '>>', '>>>?']) {
      const base64 = sign({ tags: [['x', extra]] }).slice('Nostr '.length);
      expect(await fetchUserPubkey(`Nostr ${reencode(base64)}`)).toBe(wallet.pubkey);
    }
  });

  it.each(['nostr', 'NOSTR', 'Nostr  '])('is accepted after the scheme %j', async (scheme) => {
    expect(await fetchUserPubkey(sign().replace('Nostr', scheme))).toBe(wallet.pubkey);
  });

  it.each<[string, (base: string) => Nip98Overrides]>([
    ['another kind', () => ({ kind: 1 })],
    ['another method', () => ({ method: 'POST' })],
    ['another host', () => ({ url: `https://elsewhere.example${PROTECTED}` })],
    ['another path', (base) => ({ url: `${base}${EXCHANGE}` })],
  ])('is rejected for %s', async (_case, createOptions) => {
    await expectUnauthorized(sign(createOptions(world.origin)));
  });

  it('is rejected if anything was changed after signing', async () => {
    const event = wallet.createNip98Event(PROTECTED, 'GET', { createdAt: START_SECONDS });
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

  it('is rejected if it is longer than 8 KB, even with a valid signature', async () => {
    const { status, body } = await sendRequest(
      PROTECTED,
      sign({ tags: [['padding', 'x'.repeat(6_500)]] }),
    );
    expect(status).toBe(401);
    expect(body.message).toBe('The authorization is longer than 8192 characters.');
  });

  it('is valid for each public origin, regardless of the Host header', async () => {
    const service = await useAdditionalService(
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
      expect((await sendRawRequest(service.url, PROTECTED, { headers })).status, origin).toBe(
        status,
      );
    }
  });
});

describe('a request body with NIP-98', () => {
  const spaced = '{ "lockQuotes":  true }';
  const compact = '{"lockQuotes":true}';

  it.each<[string, string[][]]>([
    ['a hash of its bytes', [['payload', sha256(spaced)]]],
    ['an upper-case hash of its bytes', [['payload', sha256(spaced).toUpperCase()]]],
    ['a hash of its compact form, as some wallets send it', [['payload', sha256(compact)]]],
    ['no payload tag', []],
  ])('is accepted with %s', async (_case, tags) => {
    expect((await patchLock(spaced, tags)).status).toBe(200);
  });

  it.each<[string, string]>([
    ['another body', sha256('{"lockQuotes":false}')],
    ['an empty body', sha256('')],
    ['nothing (empty tag)', ''],
  ])('is rejected without effect if the payload tag is the hash of %s', async (_case, payload) => {
    const { status, body } = await patchLock(spaced, [['payload', payload]]);
    expect({ status, body }).toEqual({
      status: 401,
      body: { error: true, message: 'The payload tag does not match the body.' },
    });
    expect((await sendRequest(PROTECTED, sign())).body.data.user.lockQuote).toBe(false);
  });
});

describe('an invalid Authorization header', () => {
  it.each([
    ['missing', undefined],
    ['empty', ''],
    ['only a scheme', 'Nostr'],
    ['another scheme', 'Basic YWxpY2U6c2VjcmV0'],
    ['an event that is not base64', 'Nostr !!!!'],
    ['an event that is not JSON', `Nostr ${Buffer.from('{').toString('base64')}`],
    ['a very long event', `Nostr ${'A'.repeat(20_000)}`],
    ['an invalid token', 'Bearer abc.def.ghi'],
    ['two values', 'Bearer a b'],
  ])('returns 401 with WWW-Authenticate: %s', async (_case, authorization) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    for (const path of [PROTECTED, EXCHANGE, '/api/v2/wallet/quotes']) {
      const response = await sendRawRequest(world.origin, path, { headers });
      expectUnauthorizedResponse(response);
      expect(response.headers.get('www-authenticate')).toBe('Nostr, Bearer');
    }
  });
});

describe('a token', () => {
  it('is issued for a NIP-98 event and authenticates the signer', async () => {
    const { status, body } = await sendRequest(EXCHANGE, sign({ url: world.origin + EXCHANGE }));
    expect({ status, body }).toEqual({
      status: 200,
      body: { error: false, data: { token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/) } },
    });
    expect(await fetchUserPubkey(`Bearer ${body.data.token}`)).toBe(wallet.pubkey);
    expect(await fetchUserPubkey(`bearer ${body.data.token}`)).toBe(wallet.pubkey);
  });

  it('expires after thirty minutes', async () => {
    const token = await requestToken();
    nowMs = START_MS + 30 * 60_000 - 1;
    expect(await fetchUserPubkey(`Bearer ${token}`)).toBe(wallet.pubkey);
    nowMs = START_MS + 30 * 60_000;
    await expectUnauthorized(`Bearer ${token}`);
  });

  it('is only valid for the User-Agent that it was issued to', async () => {
    const token = await requestToken({ 'user-agent': 'wallet/1' });
    expect((await useToken(token, { 'user-agent': 'wallet/1' })).status).toBe(200);
    expectUnauthorizedResponse(await useToken(token, { 'user-agent': 'wallet/2' }));
    expectUnauthorizedResponse(await useToken(token, {}));
    // A missing User-Agent counts as empty.
    for (const headers of [{}, { 'user-agent': '' }] as Record<string, string>[]) {
      const anonymous = await requestToken(headers);
      expect((await useToken(anonymous, {})).status).toBe(200);
      expect((await useToken(anonymous, { 'user-agent': '' })).status).toBe(200);
      expectUnauthorizedResponse(await useToken(anonymous, { 'user-agent': 'wallet/1' }));
    }
  });

  it('cannot be exchanged for another token', async () => {
    expectUnauthorizedResponse(await sendRequest(EXCHANGE, `Bearer ${await requestToken()}`));
  });

  it('stays valid after a secret rotation while JWT_SECRET_PREVIOUS is set', async () => {
    const clock = () => nowMs;
    const next = 'the next secret, of 32 letters and more';
    const rotating = await useAdditionalService(
      world,
      { JWT_SECRET: next, JWT_SECRET_PREVIOUS: TEST_JWT_SECRET },
      { clock },
    );
    const rotated = await useAdditionalService(world, { JWT_SECRET: next }, { clock });

    const old = await requestToken({});
    const fresh = await requestToken({}, rotating.publicOrigin);
    const statusAt = async (base: string, token: string) =>
      (await useToken(token, {}, base)).status;
    expect(await statusAt(rotating.url, old)).toBe(200);
    expect(await statusAt(rotating.url, fresh)).toBe(200);
    expect(await statusAt(rotated.url, fresh)).toBe(200);
    expect(await statusAt(rotated.url, old)).toBe(401);
    expect(await statusAt(world.origin, fresh)).toBe(401);
  });
});

it('ignores an invalid Authorization header on public routes', async () => {
  for (const path of [
    '/api/v2/info',
    `/.well-known/lnurlp/${wallet.npub}`,
    '/.well-known/nostr.json?name=alice',
    `/lnurl/verify/${'0'.repeat(64)}`,
  ]) {
    expect((await sendRequest(path, 'Bearer nonsense')).status, path).toBe(200);
  }
});

/** Returns an Authorization header for {@link PROTECTED}, signed at {@link START_MS}. */
function sign(options: Nip98Overrides = {}): string {
  return wallet.signRequest(PROTECTED, 'GET', { createdAt: START_SECONDS, ...options });
}

function encode(event: unknown): string {
  return `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
}

function sendRequest(path: string, authorization: string): Promise<ApiResponse> {
  return requestJson(world.origin, path, { headers: { authorization } });
}

async function fetchUserPubkey(authorization: string): Promise<string | undefined> {
  return (await sendRequest(PROTECTED, authorization)).body.data?.user.pubkey;
}

async function expectUnauthorized(authorization: string, what?: string): Promise<void> {
  expectUnauthorizedResponse(await sendRequest(PROTECTED, authorization), what);
}

function expectUnauthorizedResponse({ status, headers, body }: ApiResponse, what?: string): void {
  expect({ status, body }, what).toEqual({
    status: 401,
    body: { error: true, message: expect.any(String) },
  });
  expect(headers.get('access-control-allow-origin')).toBe('*');
}

function patchLock(body: string, tags: string[][]): Promise<ApiResponse> {
  const authorization = wallet.signRequest(LOCK, 'PATCH', { createdAt: START_SECONDS, tags });
  return requestJson(world.origin, LOCK, {
    method: 'PATCH',
    headers: { authorization, 'content-type': 'application/json' },
    body,
  });
}

/** Requests a token with these headers, or with the default headers of `fetch`. */
async function requestToken(
  headers?: Record<string, string>,
  base = world.origin,
): Promise<string> {
  const authorization = sign({ url: base + EXCHANGE });
  const { body } =
    headers === undefined
      ? await requestJson(base, EXCHANGE, { headers: { authorization } })
      : await sendRawRequest(base, EXCHANGE, { headers: { authorization, ...headers } });
  return body.data.token;
}

function useToken(
  token: string,
  headers: Record<string, string>,
  base = world.origin,
): Promise<ApiResponse> {
  return sendRawRequest(base, PROTECTED, {
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
