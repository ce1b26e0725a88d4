import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { createSdkClient, subscribeWithSdk } from '../helpers/recipients/npubcash-sdk.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  assignNewTestMint,
  setLockQuotes,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

/** Behavior that specific wallets rely on and that the specification does not require. */

const LIST_PATH = '/api/v2/wallet/quotes';

const environment = useTestEnvironment();

describe('npubcash-sdk, which reads pages of 50 quotes and parses all responses as JSON', () => {
  it.each([
    ['its base URL', ''],
    ['a base URL with a trailing slash, which it doubles', '/'],
  ])(
    'receives an update via %s and then immediately finds the payment in the list',
    async (_case, suffix) => {
      const wallet = environment.newWallet();
      const mint = await assignNewTestMint(wallet);
      const sdk = createSdkClient(wallet, `${environment.origin}${suffix}`);
      const { ready, updated } = subscribeWithSdk(sdk);
      await ready;
      await payInvoice(wallet, mint, 21);
      const quoteId = await updated;
      expect(await sdk.getAllQuotes()).toMatchObject([
        { quoteId, amount: 21, state: 'PAID', mintUrl: mint.url },
      ]);
    },
  );

  it('changes settings', async () => {
    const consoleSpy = vi.spyOn(console, 'log').mockReturnValue(undefined);
    onTestFinished(() => consoleSpy.mockRestore());
    const wallet = environment.newWallet();
    const { settings } = createSdkClient(wallet);
    expect((await settings.setLock(true)).data.user).toEqual({
      pubkey: wallet.pubkey,
      mintUrl: environment.mint.url,
      lockQuote: true,
    });
    const { data } = await settings.setMintUrl(`${environment.mint.url}/`);
    expect(data.user.mintUrl).toBe(environment.mint.url);
  });

  it('parses an API error', async () => {
    const consoleSpy = vi.spyOn(console, 'error').mockReturnValue(undefined);
    onTestFinished(() => consoleSpy.mockRestore());
    const { settings } = createSdkClient(environment.newWallet());
    await expect(settings.setMintUrl('nonsense')).rejects.toMatchObject({
      name: 'ApiError',
      statusCode: 400,
      message: 'Could not get mint info. Is this a valid mint url?',
    });
  });
});

describe('the cdk wallet, which parses strictly and signs settings requests with NIP-98', () => {
  it('can send Content-Type without a body and gets 404 from unknown routes', async () => {
    const wallet = environment.newWallet();
    const signedGet = (path: string) =>
      requestJson(environment.origin, path, {
        headers: { authorization: wallet.signRequest(path), 'content-type': 'application/json' },
      });
    expect((await signedGet('/api/v2/user/info')).body.data.user.pubkey).toBe(wallet.pubkey);
    expect((await setLockQuotes(wallet, true)).body.data.user.lockQuote).toBe(true);
    expect((await signedGet('/api/v2/settings')).status).toBe(404);
    const { body } = await signedGet('/api/v2/auth/nip98');
    const list = await requestJson(environment.origin, LIST_PATH, {
      headers: { authorization: `Bearer ${body.data.token}`, 'content-type': 'application/json' },
    });
    expect(list.status).toBe(200);
  });

  it('gets the payments whose ids it names in `quotes` of the response itself', async () => {
    const wallet = environment.newWallet();
    const [quoteId] = await insertPaidQuotes(environment.database, wallet.pubkey, 2);
    const path = '/api/v2/wallet/quotes/missing';
    const { body } = await wallet.send('POST', path, { quoteIds: [quoteId, 'unknown'] });
    const listed = await wallet.listPaidQuotes();
    expect(body.quotes).toEqual(listed.filter((quote) => quote['quoteId'] === quoteId));
  });

  it('gets the lock state that the mint confirmed for each quote, because one wrong state fails its whole batch', async () => {
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    const socket = await wallet.openSocket();
    for (const lockQuotes of [false, true]) {
      await setLockQuotes(wallet, lockQuotes);
      await payInvoice(wallet, mint, 1);
      await socket.nextMessage();
    }
    await socket.close();
    for (const quote of await wallet.listPaidQuotes()) {
      const lockPubkey = mint.quotes.get(String(quote['quoteId']))?.pubkey;
      expect(quote['locked']).toBe(lockPubkey === `02${wallet.pubkey}`);
    }
  });
});

describe('cashu.me, which signs every request and stops at an empty page', () => {
  it('reads each payment once with one NIP-98 event for all pages', async () => {
    const wallet = environment.newWallet();
    const ids = await insertPaidQuotes(environment.database, wallet.pubkey, 120);
    const authorization = wallet.signRequest(LIST_PATH);
    const fetchPage = async (offset: number): Promise<string[]> => {
      const { body } = await requestJson(environment.origin, `${LIST_PATH}?offset=${offset}`, {
        headers: { authorization },
      });
      return body.data.quotes.map((quote: { quoteId: string }) => quote.quoteId);
    };
    ids.reverse();
    expect(
      await Promise.all([fetchPage(0), fetchPage(50), fetchPage(100), fetchPage(120)]),
    ).toEqual([ids.slice(0, 50), ids.slice(50, 100), ids.slice(100), []]);
  });

  it('gets identical mint URLs from all endpoints and services, because it compares them as text', async () => {
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    const socket = await wallet.openSocket();
    await payInvoice(wallet, mint, 21);
    const { payload } = await socket.nextMessage();
    await socket.close();
    const secondService = await useAdditionalService(environment, {
      DEFAULT_MINT_URL: `${environment.mint.url}/`,
    });
    for (const origin of [environment.origin, secondService.publicOrigin]) {
      const responses = ['/api/v2/user/info', LIST_PATH].map(async (path) => {
        const headers = { authorization: wallet.signRequest(path, 'GET', { url: origin + path }) };
        return (await requestJson(origin, path, { headers })).body.data;
      });
      const [info, list] = await Promise.all(responses);
      expect(info.user.mintUrl).toBe(mint.url);
      expect(list.quotes).toMatchObject([{ quoteId: payload.quoteId, mintUrl: mint.url }]);
    }
  });
});

async function payInvoice(
  wallet: RecipientClient,
  mint: TestMint,
  amountSat: number,
): Promise<void> {
  const { pr } = await environment.requestInvoice(wallet, amountSat);
  mint.pay(pr);
}
