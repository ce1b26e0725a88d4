import { describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { startMint } from '../helpers/mints.ts';
import { type ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { chooseMint, serveBeside, setLock, useWorld } from '../helpers/world.ts';

/** A user's settings (spec.md sections 4.3 to 4.5). */

const UNKNOWN_MINT = 'Could not get mint info. Is this a valid mint url?';
const NO_LOCKING = 'Mint does not support locking. Choose a different mint or disable locking';

const world = useWorld();

describe('a user who has set nothing', () => {
  it('has the operator’s mint, no lock and no name', async () => {
    const wallet = world.newWallet();
    const { status, headers, body } = await wallet.get('/api/v2/user/info');
    expect(status).toBe(200);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      error: false,
      data: { user: { pubkey: wallet.pubkey, mintUrl: world.mint.url, lockQuote: false } },
    });
  });

  it('follows the operator to another mint and to locking', async () => {
    const mint = await startMint();
    const wallet = await walletElsewhere({
      DEFAULT_MINT_URL: mint.url.toUpperCase(),
      DEFAULT_LOCK_QUOTES: 'true',
    });
    expect(await userOf(wallet)).toMatchObject({ mintUrl: mint.url, lockQuote: true });
  });
});

describe('choosing a mint', () => {
  it('answers the changed user, and applies to the next payment', async () => {
    const wallet = world.newWallet();
    const mint = await startMint();
    const { status, body } = await chooseMint(wallet, mint.url);
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        error: false,
        data: { user: { pubkey: wallet.pubkey, mintUrl: mint.url, lockQuote: false } },
      },
    });
    expect(await userOf(wallet)).toEqual(body.data.user);
    const { pr } = await world.askInvoice(wallet, 21);
    expect([...mint.quotes.values()].map((quote) => quote.request)).toEqual([pr]);
  });

  it.each([
    ['a trailing slash', (url: string) => `${url}/`],
    ['upper case', (url: string) => url.toUpperCase()],
    ['an address in another notation', (url: string) => url.replace('127.0.0.1', '0x7f.1')],
  ])('keeps one spelling of it: %s is put right', async (_case, respell) => {
    const wallet = world.newWallet();
    const { body } = await chooseMint(wallet, respell(world.mint.url));
    expect(body.data.user.mintUrl).toBe(world.mint.url);
  });

  it.each([
    ['nothing that listens', 'http://127.0.0.1:9'],
    ['no url', 'not a url'],
    ['a url with a password', 'http://user:pass@127.0.0.1'],
    ['a url beyond all length', `http://127.0.0.1/${'x'.repeat(1_000)}`],
  ])('refuses %s', async (_case, mintUrl) => {
    const wallet = world.newWallet();
    expectRefused(await chooseMint(wallet, mintUrl), UNKNOWN_MINT);
    expect((await userOf(wallet)).mintUrl).toBe(world.mint.url);
  });

  it('refuses a server that is no mint', async () => {
    expectRefused(await chooseMint(world.newWallet(), world.base), UNKNOWN_MINT);
    expectRefused(await chooseMint(world.newWallet(), `${world.mint.url}/elsewhere`), UNKNOWN_MINT);
  });

  it('refuses a mint that cannot lock while locking is on', async () => {
    const wallet = world.newWallet();
    const mint = await startMint({ locking: false });
    await setLock(wallet, true);
    expectRefused(await chooseMint(wallet, mint.url), NO_LOCKING);
    expect(await userOf(wallet)).toMatchObject({ mintUrl: world.mint.url, lockQuote: true });
  });

  it('refuses http and private addresses unless the operator opened them', async () => {
    const wallet = await walletElsewhere({
      DEFAULT_MINT_URL: 'https://mint.example/',
      ALLOW_PRIVATE_NETWORKS: 'false',
    });
    expect((await userOf(wallet)).mintUrl).toBe('https://mint.example');
    const before = world.mint.requestCounts['GET /v1/info'];
    expectRefused(await chooseMint(wallet, world.mint.url), UNKNOWN_MINT);
    expectRefused(await chooseMint(wallet, world.mint.url.replace('http', 'https')), UNKNOWN_MINT);
    expectRefused(await chooseMint(wallet, 'https://localhost:1'), UNKNOWN_MINT);
    expect(world.mint.requestCounts['GET /v1/info']).toBe(before);
  });

  it('leaves quotes with the mint that made them', async () => {
    const wallet = world.newWallet();
    const mint = await startMint();
    const socket = await wallet.openSocket();
    const { pr } = await world.askInvoice(wallet, 21);
    await chooseMint(wallet, mint.url);
    world.mint.pay(pr);
    await socket.next();
    await socket.close();
    expect(await wallet.listQuotes()).toMatchObject([{ mintUrl: world.mint.url, request: pr }]);
  });
});

describe('locking', () => {
  it('is turned on and off', async () => {
    const wallet = world.newWallet();
    const { status, body } = await setLock(wallet, true);
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        error: false,
        data: { user: { pubkey: wallet.pubkey, mintUrl: world.mint.url, lockQuote: true } },
      },
    });
    expect(await userOf(wallet)).toMatchObject({ lockQuote: true });
    expect((await setLock(wallet, false)).body.data.user.lockQuote).toBe(false);
    expect(await userOf(wallet)).toMatchObject({ lockQuote: false });
  });

  it('is not turned on at a mint that cannot lock', async () => {
    const wallet = world.newWallet();
    const mint = await startMint({ locking: false });
    await chooseMint(wallet, mint.url);
    expectRefused(await setLock(wallet, true), NO_LOCKING);
    expect(await userOf(wallet)).toMatchObject({ mintUrl: mint.url, lockQuote: false });
  });

  it('is turned off without asking the mint, even a dead one', async () => {
    const wallet = world.newWallet();
    const mint = await TestMint.start();
    await chooseMint(wallet, mint.url);
    await setLock(wallet, true);
    await mint.close();
    expect((await setLock(wallet, false)).body.data.user).toMatchObject({
      mintUrl: mint.url,
      lockQuote: false,
    });
  });

  it('applies to the next invoice, and leaves those before as they are', async () => {
    const wallet = world.newWallet();
    const socket = await wallet.openSocket();
    const before = await world.askInvoice(wallet, 1);
    await setLock(wallet, true);
    const between = await world.askInvoice(wallet, 2);
    await setLock(wallet, false);
    const after = await world.askInvoice(wallet, 3);
    for (const { pr } of [before, between, after]) {
      world.mint.pay(pr);
      await socket.next();
    }
    await socket.close();
    expect(await wallet.listQuotes()).toMatchObject([
      { amount: 3, locked: false },
      { amount: 2, locked: true },
      { amount: 1, locked: false },
    ]);
  });

  it.each([
    ['missing', {}],
    ['a word', { lockQuotes: 'true' }],
    ['null', { lockQuotes: null }],
  ])('names the field where the wish is %s', async (_case, body) => {
    expectRefused(
      await world.newWallet().send('PATCH', '/api/v2/user/lock', body),
      'lockQuotes: must be true or false',
    );
  });
});

/** A wallet at another service over the same database. */
async function walletElsewhere(env: Record<string, string>): Promise<TestWallet> {
  const service = await serveBeside(world, env);
  return new TestWallet(service.publicOrigin);
}

async function userOf(wallet: TestWallet) {
  return (await wallet.get('/api/v2/user/info')).body.data.user;
}

function expectRefused({ status, body }: ApiAnswer, message: string): void {
  expect({ status, body }).toEqual({ status: 400, body: { error: true, message } });
}
