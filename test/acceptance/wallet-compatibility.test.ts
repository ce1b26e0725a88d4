import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { insertPayments } from '../helpers/quotes.ts';
import {
  assignTestMint,
  setLockQuotes,
  startAdditionalService,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { requestJson, type TestWallet } from '../helpers/test-wallet.ts';
import { createSdkClient, subscribeWithSdk } from '../helpers/wallet-sdk.ts';

/** Behavior that specific wallets rely on beyond the specification. */

const LIST = '/api/v2/wallet/quotes';

const world = useTestEnvironment();

describe('npubcash-sdk, which reads pages of 50 and fails on responses that are not JSON', () => {
  it('reads each payment once across several pages', async () => {
    const wallet = world.newWallet();
    const ids = await insertPayments(world.database, wallet.pubkey, 120);
    const quotes = await createSdkClient(wallet).getAllQuotes();
    expect(quotes.map((quote) => quote.quoteId)).toEqual(ids.reverse());
  });

  it.each([
    ['its base URL', ''],
    ['a base URL with a trailing slash, which it doubles', '/'],
  ])(
    'receives an update via %s and immediately finds the payment in the list',
    async (_case, suffix) => {
      const wallet = world.newWallet();
      const mint = await assignTestMint(wallet);
      const sdk = createSdkClient(wallet, `${world.origin}${suffix}`);
      const { ready, updated } = subscribeWithSdk(sdk);
      await ready;
      await createPayment(wallet, mint, 21);
      const quoteId = await updated;
      expect(await sdk.getAllQuotes()).toMatchObject([
        { quoteId, amount: 21, state: 'PAID', mintUrl: mint.url },
      ]);
    },
  );

  it('changes settings', async () => {
    const consoleSpy = vi.spyOn(console, 'log').mockReturnValue(undefined);
    onTestFinished(() => consoleSpy.mockRestore());
    const wallet = world.newWallet();
    const { settings } = createSdkClient(wallet);
    expect((await settings.setLock(true)).data.user).toEqual({
      pubkey: wallet.pubkey,
      mintUrl: world.mint.url,
      lockQuote: true,
    });
    const { data } = await settings.setMintUrl(`${world.mint.url}/`);
    expect(data.user.mintUrl).toBe(world.mint.url);
  });

  it('parses an API error', async () => {
    const consoleSpy = vi.spyOn(console, 'error').mockReturnValue(undefined);
    onTestFinished(() => consoleSpy.mockRestore());
    const { settings } = createSdkClient(world.newWallet());
    await expect(settings.setMintUrl('nonsense')).rejects.toMatchObject({
      name: 'ApiError',
      statusCode: 400,
      message: 'Could not get mint info. Is this a valid mint url?',
    });
  });

  it('gets an error message before the server closes its socket, because it only reconnects after one', async () => {
    const service = await startAdditionalService(world, {});
    const { failed, ready } = subscribeWithSdk(
      createSdkClient(world.newWallet(), service.publicOrigin),
    );
    await ready;
    await service.stop();
    expect(await failed).toBe('The server is restarting. Please reconnect.');
  });
});

describe('coco, which only accepts quotes with a paidAt after its newest one', () => {
  it('sees every payment of the same second when it syncs after each', async () => {
    const wallet = world.newWallet();
    const mint = await assignTestMint(wallet);
    const socket = await wallet.openSocket();
    const seen: unknown[] = [];
    let watermark = 0;
    for (let amountSat = 1; amountSat <= 4; amountSat += 1) {
      await createPayment(wallet, mint, amountSat);
      await socket.nextMessage();
      const fresh = (await createSdkClient(wallet).getQuotesSince(watermark)).filter(
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

describe('the cdk wallet, which parses strictly and signs settings requests with NIP-98', () => {
  it('can send Content-Type without a body and probe unknown routes', async () => {
    const wallet = world.newWallet();
    const signedGet = (path: string) =>
      requestJson(world.origin, path, {
        headers: { authorization: wallet.signRequest(path), 'content-type': 'application/json' },
      });
    expect((await signedGet('/api/v2/user/info')).body.data.user.pubkey).toBe(wallet.pubkey);
    expect((await setLockQuotes(wallet, true)).body.data.user.lockQuote).toBe(true);
    for (const path of ['/api/v2/wallet/quotes/missing', '/api/v2/settings']) {
      expect((await signedGet(path)).status).toBe(404);
    }
    const { body } = await signedGet('/api/v2/auth/nip98');
    const list = await requestJson(world.origin, LIST, {
      headers: { authorization: `Bearer ${body.data.token}`, 'content-type': 'application/json' },
    });
    expect(list.status).toBe(200);
  });

  it('gets the lock state that the mint confirmed for each quote, because one error fails its batch', async () => {
    const wallet = world.newWallet();
    const mint = await assignTestMint(wallet);
    const socket = await wallet.openSocket();
    for (const lockQuotes of [false, true]) {
      await setLockQuotes(wallet, lockQuotes);
      await createPayment(wallet, mint, 1);
      await socket.nextMessage();
    }
    await socket.close();
    for (const quote of await wallet.listQuotes()) {
      const lock = mint.quotes.get(String(quote['quoteId']))?.pubkey;
      expect(quote['locked']).toBe(lock === `02${wallet.pubkey}`);
    }
  });

  it('finds later payments when it lists quotes since the newest createdAt', async () => {
    const wallet = world.newWallet();
    const mint = await assignTestMint(wallet);
    const socket = await wallet.openSocket();
    const older = await world.requestInvoice(wallet, 1);
    const newer = await world.requestInvoice(wallet, 2);
    mint.pay(newer.pr);
    await socket.nextMessage();
    const createdAt = (await wallet.listQuotes()).map((quote) => Number(quote['createdAt']));
    mint.pay(older.pr);
    await socket.nextMessage();
    await socket.close();
    const later = await wallet.listQuotes(Math.max(...createdAt));
    expect(later.map((quote) => quote['request'])).toContain(older.pr);
  });
});

describe('cashu.me, which signs every request and stops at an empty page', () => {
  it('reads each payment once with one NIP-98 event for all pages', async () => {
    const wallet = world.newWallet();
    const ids = await insertPayments(world.database, wallet.pubkey, 120);
    const authorization = wallet.signRequest(LIST);
    const page = async (offset: number): Promise<string[]> => {
      const { body } = await requestJson(world.origin, `${LIST}?offset=${offset}`, {
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

  it('gets identical mint URLs in every response and after a restart, because it compares them as text', async () => {
    const wallet = world.newWallet();
    const mint = await assignTestMint(wallet);
    const socket = await wallet.openSocket();
    await createPayment(wallet, mint, 21);
    const { payload } = await socket.nextMessage();
    await socket.close();
    const restarted = await useAdditionalService(world, { DEFAULT_MINT_URL: `${world.mint.url}/` });
    for (const base of [world.origin, restarted.publicOrigin]) {
      const paths = ['/api/v2/user/info', LIST].map(async (path) => {
        const headers = { authorization: wallet.signRequest(path, 'GET', { url: base + path }) };
        return (await requestJson(base, path, { headers })).body.data;
      });
      const [info, list] = await Promise.all(paths);
      expect(info.user.mintUrl).toBe(mint.url);
      expect(list.quotes).toMatchObject([{ quoteId: payload.quoteId, mintUrl: mint.url }]);
    }
  });
});

async function createPayment(wallet: TestWallet, mint: TestMint, amountSat: number): Promise<void> {
  const { pr } = await world.requestInvoice(wallet, amountSat);
  mint.pay(pr);
}
