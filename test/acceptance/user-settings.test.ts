import { describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { saveMintHealth } from '../../src/mints/mint-store.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import {
  type ApiResponse,
  RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import {
  setLockQuotes,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const UNKNOWN_MINT = {
  code: 'mint_unusable',
  message: 'Could not get mint info. Is this a valid mint url?',
};
const NO_LOCKING = {
  code: 'locking_unsupported',
  message: 'Mint does not support locking. Choose a different mint or disable locking',
};

const environment = useTestEnvironment();

describe('a user without stored settings', () => {
  it('gets the default mint, no lock and no name', async () => {
    const wallet = environment.newWallet();
    const { status, headers, body } = await wallet.get('/api/v2/user/info');
    const user = { pubkey: wallet.pubkey, mintUrl: environment.mint.url, lockQuote: false };
    expect({ status, body }).toEqual({ status: 200, body: { error: false, data: { user } } });
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });

  it('follows changes of the default mint and the default lock setting', async () => {
    const mint = await startTestMint();
    const wallet = await createWalletOfSecondService({
      DEFAULT_MINT_URL: mint.url.toUpperCase(),
      DEFAULT_LOCK_QUOTES: 'true',
    });
    expect(await fetchUser(wallet)).toMatchObject({ mintUrl: mint.url, lockQuote: true });
  });
});

describe('GET /api/v2/user/addresses', () => {
  const PATH = '/api/v2/user/addresses';

  it('returns the npub of a user without a username', async () => {
    const wallet = environment.newWallet();
    const { body } = await wallet.get(PATH);
    const addresses = [`${wallet.npub}@${new URL(environment.origin).host}`];
    expect(body).toEqual({ error: false, data: { addresses } });
  });

  it('returns the username and the npub on the host of each public origin, in their order', async () => {
    const service = await useAdditionalService(environment, {
      PUBLIC_ORIGINS: 'https://pay.example,http://pay.example,http://hidden.onion:8080',
    });
    const wallet = new RecipientClient('https://pay.example');
    await assignUsername(environment.database, wallet.pubkey, 'alice');
    const headers = { authorization: wallet.signRequest(PATH) };
    const { body } = await requestJson(service.url, PATH, { headers });
    expect(body.data.addresses).toEqual([
      'alice@pay.example',
      `${wallet.npub}@pay.example`,
      'alice@hidden.onion:8080',
      `${wallet.npub}@hidden.onion:8080`,
    ]);
  });
});

describe('GET /api/v2/user/mint', () => {
  const PATH = '/api/v2/user/mint';

  it('describes the mint that the user chose', async () => {
    const wallet = environment.newWallet();
    const mint = await startTestMint({ minAmountSat: 2, maxAmountSat: 5_000 });
    await setMint(wallet, mint.url);
    const { body } = await wallet.get(PATH);
    expect(body.data.mint).toEqual({
      url: mint.url,
      name: 'Test mint',
      supportsLocking: true,
      minAmount: 2,
      maxAmount: 5_000,
    });
  });

  it('returns only the URL of a mint that does not respond', async () => {
    const url = 'http://127.0.0.1:9';
    const wallet = await createWalletOfSecondService({ DEFAULT_MINT_URL: url });
    const { status, body } = await wallet.get(PATH);
    expect({ status, mint: body.data.mint }).toEqual({ status: 200, mint: { url } });
  });
});

describe('GET /api/v2/user/mint/preview', () => {
  const preview = async (url: string) => {
    const query = new URLSearchParams({ url });
    const wallet = environment.newWallet();
    const { status, body } = await wallet.get(`/api/v2/user/mint/preview?${query}`);
    expect(status).toBe(200);
    expect((await fetchUser(wallet)).mintUrl).toBe(environment.mint.url);
    return body.data;
  };

  it('describes a mint, and changes nothing', async () => {
    const mint = await startTestMint({ minAmountSat: 2, description: 'For friends.' });
    expect(await preview(`${mint.url}/`)).toEqual({
      mint: {
        url: mint.url,
        name: 'Test mint',
        description: 'For friends.',
        supportsLocking: true,
        minAmount: 2,
      },
    });
  });

  it('says how a mint has answered that the service knows', async () => {
    const { url: mintUrl } = await startTestMint();
    await preview(mintUrl);
    const health = {
      mintUrl,
      answeredAtMs: 1_800_000_000_999,
      failingSinceMs: null,
      failure: null,
    };
    await saveMintHealth(environment.database.db, [health]);
    const { mint } = await preview(mintUrl);
    expect(mint.answeredAt).toBe(1_800_000_000);
    expect(mint.failingSince).toBeUndefined();
    const failing = { answeredAtMs: null, failingSinceMs: 1_800_000_060_000, failure: 'timed out' };
    await saveMintHealth(environment.database.db, [{ mintUrl, ...failing }]);
    expect((await preview(mintUrl)).mint).toMatchObject({
      answeredAt: 1_800_000_000,
      failingSince: 1_800_000_060,
    });
  });

  it.each([
    ['invalid_url', () => 'mint.example'],
    ['not_found', () => 'https://mint.invalid'],
    ['refused', () => 'http://127.0.0.1:9'],
    ['not_a_mint', () => environment.origin],
    ['no_sats', async () => (await startTestMint({ isMintingDisabled: true })).url],
  ])('returns the reason %s', async (reason, getUrl) => {
    expect(await preview(await getUrl())).toEqual({ reason });
  });
});

describe('PATCH /api/v2/user/mint', () => {
  it('returns the user with the normalised URL and applies to the next payment', async () => {
    const wallet = environment.newWallet();
    const mint = await startTestMint();
    const { status, body } = await setMint(wallet, `${mint.url}/`);
    const user = { pubkey: wallet.pubkey, mintUrl: mint.url, lockQuote: false };
    expect({ status, body }).toEqual({ status: 200, body: { error: false, data: { user } } });
    expect(await fetchUser(wallet)).toEqual(body.data.user);
    const { pr } = await environment.requestInvoice(wallet, 21);
    expect([...mint.quotes.values()].map((quote) => quote.request)).toEqual([pr]);
  });

  it.each([
    ['an unreachable URL', () => 'http://127.0.0.1:9'],
    ['a URL with a password', () => 'http://user:pass@127.0.0.1'],
    ['a server that is not a mint', () => environment.origin],
    ['another path of a mint', () => `${environment.mint.url}/elsewhere`],
  ])('rejects %s', async (_case, getUrl) => {
    const wallet = environment.newWallet();
    expectRejected(await setMint(wallet, getUrl()), UNKNOWN_MINT);
    expect((await fetchUser(wallet)).mintUrl).toBe(environment.mint.url);
  });

  it('rejects a mint without locking support while locking is on', async () => {
    const wallet = environment.newWallet();
    const mint = await startTestMint({ supportsLocking: false });
    await setLockQuotes(wallet, true);
    expectRejected(await setMint(wallet, mint.url), NO_LOCKING);
    const { url: mintUrl } = environment.mint;
    expect(await fetchUser(wallet)).toMatchObject({ mintUrl, lockQuote: true });
  });

  it('rejects http URLs and private addresses unless ALLOW_PRIVATE_NETWORKS is set', async () => {
    const wallet = await createWalletOfSecondService({
      DEFAULT_MINT_URL: 'https://mint.example/',
      ALLOW_PRIVATE_NETWORKS: 'false',
    });
    expect((await fetchUser(wallet)).mintUrl).toBe('https://mint.example');
    const infoRequestsBefore = environment.mint.requestCounts['GET /v1/info'];
    expectRejected(await setMint(wallet, environment.mint.url), UNKNOWN_MINT);
    const httpsUrl = environment.mint.url.replace('http', 'https');
    expectRejected(await setMint(wallet, httpsUrl), UNKNOWN_MINT);
    expect(environment.mint.requestCounts['GET /v1/info']).toBe(infoRequestsBefore);
  });
});

describe('PATCH /api/v2/user/lock', () => {
  it('rejects locking if the mint does not support it', async () => {
    const wallet = environment.newWallet();
    const mint = await startTestMint({ supportsLocking: false });
    await setMint(wallet, mint.url);
    expectRejected(await setLockQuotes(wallet, true), NO_LOCKING);
    expect(await fetchUser(wallet)).toMatchObject({ mintUrl: mint.url, lockQuote: false });
  });

  it('rejects locking if the mint is changed while its support is checked', async () => {
    const otherProcess = await useAdditionalService(environment, {});
    const wallet = environment.newWallet();
    const otherWallet = new RecipientClient(otherProcess.publicOrigin, Date.now, wallet.secretKey);
    const firstMint = await startTestMint();
    const secondMint = await startTestMint({ supportsLocking: false });
    await setMint(wallet, firstMint.url);
    // The other process has not requested the info of the first mint yet.
    const hold = firstMint.holdNext('GET /v1/info', 'after');
    const lockResponse = setLockQuotes(otherWallet, true);
    await hold.reached;
    expect((await setMint(wallet, secondMint.url)).status).toBe(200);
    hold.release();
    expect(await lockResponse).toMatchObject({ status: 500, body: { code: 'unavailable' } });
    expect(await fetchUser(wallet)).toMatchObject({ mintUrl: secondMint.url, lockQuote: false });
  });

  it('turns locking off even if the mint is unreachable', async () => {
    const wallet = environment.newWallet();
    const mint = await TestMint.start();
    await setMint(wallet, mint.url);
    await setLockQuotes(wallet, true);
    await mint.close();
    expect((await setLockQuotes(wallet, false)).body.data.user).toMatchObject({
      mintUrl: mint.url,
      lockQuote: false,
    });
  });

  it('applies to later invoices and leaves earlier invoices unchanged', async () => {
    const wallet = environment.newWallet();
    const socket = await wallet.openSocket();
    const invoiceBefore = await environment.requestInvoice(wallet, 1);
    const { status, body } = await setLockQuotes(wallet, true);
    const user = { pubkey: wallet.pubkey, mintUrl: environment.mint.url, lockQuote: true };
    expect({ status, body }).toEqual({ status: 200, body: { error: false, data: { user } } });
    const lockedInvoice = await environment.requestInvoice(wallet, 2);
    expect((await setLockQuotes(wallet, false)).body.data.user.lockQuote).toBe(false);
    const invoiceAfter = await environment.requestInvoice(wallet, 3);
    for (const { pr } of [invoiceBefore, lockedInvoice, invoiceAfter]) {
      environment.mint.pay(pr);
      await socket.nextMessage();
    }
    await socket.close();
    expect(await wallet.listPaidQuotes()).toMatchObject([
      { amount: 3, locked: false },
      { amount: 2, locked: true },
      { amount: 1, locked: false },
    ]);
  });

  it.each([
    ['missing', {}],
    ['a string', { lockQuotes: 'true' }],
  ])('rejects a lockQuotes field that is %s, and names the field', async (_case, body) => {
    expectRejected(await environment.newWallet().send('PATCH', '/api/v2/user/lock', body), {
      code: 'invalid',
      message: 'lockQuotes: must be true or false',
    });
  });
});

async function createWalletOfSecondService(env: Record<string, string>): Promise<RecipientClient> {
  const service = await useAdditionalService(environment, env);
  return new RecipientClient(service.publicOrigin);
}

async function fetchUser(wallet: RecipientClient) {
  return (await wallet.get('/api/v2/user/info')).body.data.user;
}

function expectRejected(
  { status, body }: ApiResponse,
  error: { code: string; message: string },
): void {
  expect({ status, body }).toEqual({ status: 400, body: { error: true, ...error } });
}
