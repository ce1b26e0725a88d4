import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import {
  type ApiResponse,
  type Nip98Overrides,
  type RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import {
  TEST_JWT_SECRET,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const USER_PATH = '/api/v2/user/info';
const TOKEN_PATH = '/api/v2/auth/nip98';
const LOCK_PATH = '/api/v2/user/lock';

const AUTHENTICATED_PATHS = [
  USER_PATH,
  TOKEN_PATH,
  '/api/v2/user/addresses',
  '/api/v2/user/mint',
  '/api/v2/wallet/quotes',
  '/api/v2/wallet/summary',
];

const START_MS = 1_800_000_000_000;
const START_SECONDS = START_MS / 1000;
let nowMs = START_MS;

const environment = useTestEnvironment({ overrides: { clock: () => nowMs } });
let wallet: RecipientClient;

beforeEach(() => {
  nowMs = START_MS;
  wallet = environment.newWallet();
});

describe('a NIP-98 event', () => {
  it('is valid if its time differs from the server clock by at most 60 s', async () => {
    for (const offsetSeconds of [-60, 0, 60]) {
      const authorization = signHeader({ createdAtSeconds: START_SECONDS + offsetSeconds });
      expect(await fetchUserPubkey(authorization)).toBe(wallet.pubkey);
    }
    for (const offsetSeconds of [-3600, -61, 61, 3600]) {
      await expectUnauthorized(signHeader({ createdAtSeconds: START_SECONDS + offsetSeconds }));
    }
  });

  it('may have unknown, repeated and empty tags', async () => {
    const tags = [['nonce', 'abc'], ['u', 'https://other.example'], ['payload', sha256('')], ['x']];
    expect(await fetchUserPubkey(signHeader({ tags }))).toBe(wallet.pubkey);
  });

  it('is accepted as padded and unpadded base64 and base64url', async () => {
    // The length of the event determines the length of its base64 padding.
    for (const tagValue of ['>', '>>', '>>>', '>>>?']) {
      const base64 = signHeader({ tags: [['x', tagValue]] }).slice('Nostr '.length);
      const base64url = base64.replaceAll('+', '-').replaceAll('/', '_');
      for (const encoded of [base64, base64url]) {
        expect(await fetchUserPubkey(`NOSTR  ${encoded}`)).toBe(wallet.pubkey);
        const unpadded = encoded.replaceAll('=', '');
        expect(await fetchUserPubkey(`nostr ${unpadded}`)).toBe(wallet.pubkey);
      }
    }
  });

  it('is rejected if it has another kind, method, host or path', async () => {
    for (const overrides of [
      { kind: 1 },
      { method: 'POST' },
      { url: `https://elsewhere.example${USER_PATH}` },
      { url: `${environment.origin}${TOKEN_PATH}` },
    ]) {
      await expectUnauthorized(signHeader(overrides), JSON.stringify(overrides));
    }
  });

  it('is rejected if it was changed after signing or is not an event', async () => {
    const event = wallet.createNip98Event(USER_PATH, 'GET', { createdAtSeconds: START_SECONDS });
    const { pubkey } = environment.newWallet();
    for (const invalidEvent of [
      { ...event, pubkey },
      { ...event, id: '0'.repeat(64) },
      { ...event, sig: '0'.repeat(128) },
      { ...event, sig: `${event.sig.slice(0, -1)}${event.sig.endsWith('0') ? '1' : '0'}` },
      { ...event, sig: undefined },
      { ...event, id: event.id.toUpperCase() },
      [event],
      null,
    ]) {
      await expectUnauthorized(encodeHeader(invalidEvent), JSON.stringify(invalidEvent));
    }
  });

  it('is rejected if it is longer than 8192 characters, even with a valid signature', async () => {
    const authorization = signHeader({ tags: [['padding', 'x'.repeat(6_500)]] });
    const response = await getJson(USER_PATH, authorization);
    expectUnauthorizedResponse(response);
    expect(response.body.message).toBe('The authorization is longer than 8192 characters.');
  });

  it('is valid only for the public origins, regardless of the Host header', async () => {
    const service = await useAdditionalService(
      environment,
      { PUBLIC_ORIGINS: 'https://pay.example,https://two.example:8443' },
      { clock: () => nowMs },
    );
    for (const [origin, expectedStatus] of [
      ['https://pay.example', 200],
      ['https://PAY.example:443', 200],
      ['https://two.example:8443', 200],
      ['https://two.example', 401],
      [service.url, 401],
    ] as const) {
      const authorization = signHeader({ url: origin + USER_PATH });
      const headers = { authorization, host: 'pay.example' };
      expect((await sendRawRequest(service.url, USER_PATH, { headers })).status, origin).toBe(
        expectedStatus,
      );
    }
  });
});

describe('the body of a request with a NIP-98 event', () => {
  const spacedBody = '{ "lockQuotes":  true }';

  it('is accepted with a hash of its bytes or of its compact form, and without a hash', async () => {
    const hash = sha256(spacedBody);
    // Some wallets send the compact form.
    for (const payload of [hash, hash.toUpperCase(), sha256('{"lockQuotes":true}')]) {
      expect((await patchLock(spacedBody, [['payload', payload]])).status).toBe(200);
    }
    expect((await patchLock(spacedBody, [])).status).toBe(200);
  });

  it.each<[string, string]>([
    ['the hash of another body', sha256('{"lockQuotes":false}')],
    ['the hash of an empty body', sha256('')],
    ['empty', ''],
  ])('is rejected without effect if the payload tag is %s', async (_case, payload) => {
    const response = await patchLock(spacedBody, [['payload', payload]]);
    expectUnauthorizedResponse(response);
    expect(response.body.message).toBe('The payload tag does not match the body.');
    expect((await getJson(USER_PATH, signHeader())).body.data.user.lockQuote).toBe(false);
  });
});

describe('an invalid Authorization header', () => {
  it.each([
    ['is missing', undefined],
    ['is empty', ''],
    ['has only a scheme', 'Nostr'],
    ['has another scheme', 'Basic YWxpY2U6c2VjcmV0'],
    ['has an event that is not base64', 'Nostr !!!!'],
    ['has an event that is not JSON', `Nostr ${Buffer.from('{').toString('base64')}`],
    ['has an invalid token', 'Bearer abc.def.ghi'],
    ['has two values', 'Bearer a b'],
  ])('returns 401 with WWW-Authenticate if it %s', async (_case, authorization) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    for (const path of AUTHENTICATED_PATHS) {
      const response = await sendRawRequest(environment.origin, path, { headers });
      expectUnauthorizedResponse(response);
      expect(response.headers.get('www-authenticate')).toBe('Nostr, Bearer');
    }
  });
});

describe('a bearer token', () => {
  it('is issued for a NIP-98 event and authenticates the signer', async () => {
    const authorization = signHeader({ url: environment.origin + TOKEN_PATH });
    const { status, body } = await getJson(TOKEN_PATH, authorization);
    const token = expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/);
    expect({ status, body }).toEqual({ status: 200, body: { error: false, data: { token } } });
    expect(await fetchUserPubkey(`Bearer ${body.data.token}`)).toBe(wallet.pubkey);
    expect(await fetchUserPubkey(`bearer ${body.data.token}`)).toBe(wallet.pubkey);
  });

  it('expires after 30 minutes', async () => {
    const token = await requestToken();
    nowMs = START_MS + 30 * 60_000 - 1;
    expect(await fetchUserPubkey(`Bearer ${token}`)).toBe(wallet.pubkey);
    nowMs += 1;
    await expectUnauthorized(`Bearer ${token}`);
  });

  it('is only valid for the User-Agent that it was issued to', async () => {
    const token = await requestToken({ 'user-agent': 'wallet/1' });
    expect((await sendWithToken(token, { 'user-agent': 'wallet/1' })).status).toBe(200);
    expectUnauthorizedResponse(await sendWithToken(token, { 'user-agent': 'wallet/2' }));
    expectUnauthorizedResponse(await sendWithToken(token, {}));
    // A missing User-Agent counts as empty.
    for (const headers of [{}, { 'user-agent': '' }] as Record<string, string>[]) {
      const agentlessToken = await requestToken(headers);
      expect((await sendWithToken(agentlessToken, {})).status).toBe(200);
      expect((await sendWithToken(agentlessToken, { 'user-agent': '' })).status).toBe(200);
      expectUnauthorizedResponse(await sendWithToken(agentlessToken, { 'user-agent': 'wallet/1' }));
    }
  });

  it('cannot be exchanged for another token', async () => {
    expectUnauthorizedResponse(await getJson(TOKEN_PATH, `Bearer ${await requestToken()}`));
  });

  it('stays valid after a change of JWT_SECRET while JWT_SECRET_PREVIOUS is set', async () => {
    const clock = () => nowMs;
    const newSecret = 'the new secret, of 32 letters and more';
    const startWith = (env: Record<string, string>) =>
      useAdditionalService(environment, { JWT_SECRET: newSecret, ...env }, { clock });
    const rotatingService = await startWith({ JWT_SECRET_PREVIOUS: TEST_JWT_SECRET });
    const newService = await startWith({});

    const oldToken = await requestToken({});
    const newToken = await requestToken({}, rotatingService.publicOrigin);
    const fetchStatus = async (origin: string, token: string) =>
      (await sendWithToken(token, {}, origin)).status;
    expect(await fetchStatus(rotatingService.url, oldToken)).toBe(200);
    expect(await fetchStatus(rotatingService.url, newToken)).toBe(200);
    expect(await fetchStatus(newService.url, newToken)).toBe(200);
    expect(await fetchStatus(newService.url, oldToken)).toBe(401);
    expect(await fetchStatus(environment.origin, newToken)).toBe(401);
  });
});

it('ignores an invalid Authorization header on public routes', async () => {
  for (const path of [
    '/api/v2/info',
    `/.well-known/lnurlp/${wallet.npub}`,
    '/.well-known/nostr.json?name=alice',
    `/lnurl/verify/${'0'.repeat(64)}`,
  ]) {
    expect((await getJson(path, 'Bearer nonsense')).status, path).toBe(200);
  }
});

/** Returns an Authorization header for {@link USER_PATH}, signed at {@link START_MS}. */
function signHeader(options: Nip98Overrides = {}): string {
  return wallet.signRequest(USER_PATH, 'GET', { createdAtSeconds: START_SECONDS, ...options });
}

function encodeHeader(event: unknown): string {
  return `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`;
}

function getJson(path: string, authorization: string): Promise<ApiResponse> {
  return requestJson(environment.origin, path, { headers: { authorization } });
}

async function fetchUserPubkey(authorization: string): Promise<string | undefined> {
  return (await getJson(USER_PATH, authorization)).body.data?.user.pubkey;
}

async function expectUnauthorized(authorization: string, label?: string): Promise<void> {
  expectUnauthorizedResponse(await getJson(USER_PATH, authorization), label);
}

function expectUnauthorizedResponse({ status, headers, body }: ApiResponse, label?: string): void {
  expect({ status, body }, label).toEqual({
    status: 401,
    body: { error: true, code: 'unauthorized', message: expect.any(String) },
  });
  expect(headers.get('access-control-allow-origin')).toBe('*');
}

function patchLock(body: string, tags: string[][]): Promise<ApiResponse> {
  const authorization = wallet.signRequest(LOCK_PATH, 'PATCH', {
    createdAtSeconds: START_SECONDS,
    tags,
  });
  return requestJson(environment.origin, LOCK_PATH, {
    method: 'PATCH',
    headers: { authorization, 'content-type': 'application/json' },
    body,
  });
}

async function requestToken(
  headers?: Record<string, string>,
  origin = environment.origin,
): Promise<string> {
  const authorization = signHeader({ url: origin + TOKEN_PATH });
  const { body } =
    headers === undefined
      ? await requestJson(origin, TOKEN_PATH, { headers: { authorization } })
      : await sendRawRequest(origin, TOKEN_PATH, { headers: { authorization, ...headers } });
  return body.data.token;
}

function sendWithToken(
  token: string,
  headers: Record<string, string>,
  origin = environment.origin,
): Promise<ApiResponse> {
  return sendRawRequest(origin, USER_PATH, {
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
