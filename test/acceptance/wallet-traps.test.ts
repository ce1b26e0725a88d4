import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { keepPayments } from '../helpers/quotes.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { sdkOf, subscribe } from '../helpers/wallet-sdk.ts';
import { giveOwnMint, serveBeside, setLock, startBeside, useWorld } from '../helpers/world.ts';

/**
 * What today's wallets rely on, each for a reason of its own. What they share with the
 * specification is tested beside it: signatures and tokens in `auth.test.ts`, the socket in
 * `quote-socket.test.ts`, pages in `quotes.test.ts`, errors and CORS in `errors.test.ts`.
 */

const LIST = '/api/v2/wallet/quotes';

const world = useWorld();

describe('npubcash-sdk, which steps through pages by 50 and gives up on an answer that is no JSON', () => {
  it('reads every payment once, over several pages', async () => {
    const wallet = world.newWallet();
    const ids = await keepPayments(world.database, wallet.pubkey, 120);
    const quotes = await sdkOf(wallet).getAllQuotes();
    expect(quotes.map((quote) => quote.quoteId)).toEqual(ids.reverse());
  });

  it.each([
    ['its base url', ''],
    ['a base url that ends in a slash, which it doubles', '/'],
  ])('hears of a payment at %s, and finds it in the list at once', async (_which, end) => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const sdk = sdkOf(wallet, `${world.base}${end}`);
    const { ready, updated } = subscribe(sdk);
    await ready;
    await receive(wallet, mint, 21);
    const quoteId = await updated;
    expect(await sdk.getAllQuotes()).toMatchObject([
      { quoteId, amount: 21, state: 'PAID', mintUrl: mint.url },
    ]);
  });

  it('changes settings', async () => {
    const silence = vi.spyOn(console, 'log').mockReturnValue(undefined);
    onTestFinished(() => silence.mockRestore());
    const wallet = world.newWallet();
    const { settings } = sdkOf(wallet);
    expect((await settings.setLock(true)).data.user).toEqual({
      pubkey: wallet.pubkey,
      mintUrl: world.mint.url,
      lockQuote: true,
    });
    const { data } = await settings.setMintUrl(`${world.mint.url}/`);
    expect(data.user.mintUrl).toBe(world.mint.url);
  });

  it('gets an error that it can read', async () => {
    const silence = vi.spyOn(console, 'error').mockReturnValue(undefined);
    onTestFinished(() => silence.mockRestore());
    const { settings } = sdkOf(world.newWallet());
    await expect(settings.setMintUrl('nonsense')).rejects.toMatchObject({
      name: 'ApiError',
      statusCode: 400,
      message: 'Could not get mint info. Is this a valid mint url?',
    });
  });

  it('is told before the server closes its socket, for it reconnects on nothing else', async () => {
    const service = await startBeside(world, {});
    const { failed, ready } = subscribe(sdkOf(world.newWallet(), service.publicOrigin));
    await ready;
    await service.stop();
    expect(await failed).toBe('The server is restarting. Please reconnect.');
  });
});

describe('coco, which keeps the newest paidAt and drops what is not later', () => {
  it('loses none of the payments that come within one second, with a sync after each', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const socket = await wallet.openSocket();
    const seen: unknown[] = [];
    let watermark = 0;
    for (let amountSat = 1; amountSat <= 4; amountSat += 1) {
      await receive(wallet, mint, amountSat);
      await socket.next();
      const fresh = (await sdkOf(wallet).getQuotesSince(watermark)).filter(
        (quote) => quote.paidAt > watermark,
      );
      seen.push(...fresh.map((quote) => quote.amount));
      watermark = Math.max(watermark, ...fresh.map((quote) => quote.paidAt));
    }
    await socket.close();
    expect(seen).toEqual([1, 2, 3, 4]);
    expect(watermark).toBeLessThanOrEqual(Date.now() / 1000 + 5);
  });
});

describe('the cdk wallet, which reads strictly and signs its own way', () => {
  it('signs settings by NIP-98, says what it sends even where it sends nothing, and probes', async () => {
    const wallet = world.newWallet();
    const ask = (path: string) =>
      request(world.base, path, {
        headers: { authorization: wallet.sign(path), 'content-type': 'application/json' },
      });
    expect((await ask('/api/v2/user/info')).body.data.user.pubkey).toBe(wallet.pubkey);
    expect((await setLock(wallet, true)).body.data.user.lockQuote).toBe(true);
    for (const path of ['/api/v2/wallet/quotes/missing', '/api/v2/settings']) {
      expect((await ask(path)).status).toBe(404);
    }
    const { body } = await ask('/api/v2/auth/nip98');
    const list = await request(world.base, LIST, {
      headers: { authorization: `Bearer ${body.data.token}`, 'content-type': 'application/json' },
    });
    expect(list.status).toBe(200);
  });

  it('collects all or nothing, so each quote is locked as the mint confirmed', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const socket = await wallet.openSocket();
    for (const lockQuotes of [false, true]) {
      await setLock(wallet, lockQuotes);
      await receive(wallet, mint, 1);
      await socket.next();
    }
    await socket.close();
    for (const quote of await wallet.listQuotes()) {
      const lock = mint.quotes.get(String(quote['quoteId']))?.pubkey;
      expect(quote['locked']).toBe(lock === `02${wallet.pubkey}`);
    }
  });

  it('asks since the newest creation, and misses nothing that is paid later', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const socket = await wallet.openSocket();
    const older = await world.askInvoice(wallet, 1);
    const newer = await world.askInvoice(wallet, 2);
    mint.pay(newer.pr);
    await socket.next();
    const createdAt = (await wallet.listQuotes()).map((quote) => Number(quote['createdAt']));
    mint.pay(older.pr);
    await socket.next();
    await socket.close();
    const later = await wallet.listQuotes(Math.max(...createdAt));
    expect(later.map((quote) => quote['request'])).toContain(older.pr);
  });
});

describe('cashu.me, which signs every call and stops at an empty page', () => {
  it('reads every payment once, stepping by what it got, with one event for all pages', async () => {
    const wallet = world.newWallet();
    const ids = await keepPayments(world.database, wallet.pubkey, 120);
    const authorization = wallet.sign(LIST);
    const page = async (offset: number): Promise<string[]> => {
      const { body } = await request(world.base, `${LIST}?offset=${offset}`, {
        headers: { authorization },
      });
      return body.data.quotes.map((quote: { quoteId: string }) => quote.quoteId);
    };
    const seen: string[] = [];
    for (let part = await page(0); part.length > 0; part = await page(seen.length)) {
      seen.push(...part);
    }
    expect(seen).toEqual(ids.reverse());
    expect(await Promise.all([page(0), page(50), page(100)])).toEqual([
      ids.slice(0, 50),
      ids.slice(50, 100),
      ids.slice(100),
    ]);
  });

  it('compares a mint’s url as text: it is the same everywhere and after every start', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const socket = await wallet.openSocket();
    await receive(wallet, mint, 21);
    const { payload } = await socket.next();
    await socket.close();
    const restarted = await serveBeside(world, { DEFAULT_MINT_URL: `${world.mint.url}/` });
    for (const base of [world.base, restarted.publicOrigin]) {
      const paths = ['/api/v2/user/info', LIST].map(async (path) => {
        const headers = { authorization: wallet.sign(path, 'GET', { url: base + path }) };
        return (await request(base, path, { headers })).body.data;
      });
      const [info, list] = await Promise.all(paths);
      expect(info.user.mintUrl).toBe(mint.url);
      expect(list.quotes).toMatchObject([{ quoteId: payload.quoteId, mintUrl: mint.url }]);
    }
  });
});

async function receive(wallet: TestWallet, mint: TestMint, amountSat: number): Promise<void> {
  const { pr } = await world.askInvoice(wallet, amountSat);
  mint.pay(pr);
}
