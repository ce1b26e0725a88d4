import { describe, expect, it } from 'vitest';
import { createSdkClient, subscribeWithSdk } from '../helpers/recipients/npubcash-sdk.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import { assignNewTestMint, useTestEnvironment } from '../helpers/service/test-environment.ts';

/** Behavior that specific wallets rely on and that the specification does not require. */

const LIST_PATH = '/api/v2/wallet/quotes';

const environment = useTestEnvironment();

describe('npubcash-sdk, which reads pages of 50 quotes and parses all responses as JSON', () => {
  it('reads each payment once across several pages', async () => {
    const wallet = environment.newWallet();
    const ids = await insertPaidQuotes(environment.database, wallet.pubkey, 120);
    const quotes = await createSdkClient(wallet).getAllQuotes();
    expect(quotes.map((quote) => quote.quoteId)).toEqual(ids.reverse());
  });

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
      mint.pay((await environment.requestInvoice(wallet, 21)).pr);
      const quoteId = await updated;
      expect(await sdk.getAllQuotes()).toMatchObject([
        { quoteId, amount: 21, state: 'PAID', mintUrl: mint.url },
      ]);
    },
  );
});

describe('the cdk wallet, which parses strictly and signs settings requests with NIP-98', () => {
  it('can send Content-Type without a body and gets 404 from unknown routes', async () => {
    const wallet = environment.newWallet();
    const signedGet = (path: string) =>
      requestJson(environment.origin, path, {
        headers: { authorization: wallet.signRequest(path), 'content-type': 'application/json' },
      });
    expect((await signedGet('/api/v2/user/info')).body.data.user.pubkey).toBe(wallet.pubkey);
    expect((await signedGet('/api/v2/settings')).status).toBe(404);
    const { body } = await signedGet('/api/v2/auth/nip98');
    const list = await requestJson(environment.origin, LIST_PATH, {
      headers: { authorization: `Bearer ${body.data.token}`, 'content-type': 'application/json' },
    });
    expect(list.status).toBe(200);
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
    const pages = await Promise.all([0, 50, 100, 120].map(fetchPage));
    expect(pages.flat()).toEqual(ids.reverse());
    expect(pages.at(-1)).toEqual([]);
  });
});
