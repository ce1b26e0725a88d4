import { sumProofs, Wallet } from '@cashu/cashu-ts';
import { nip57, verifyEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { invoiceField } from '../helpers/invoice-field.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { sdkOf } from '../helpers/wallet-sdk.ts';
import {
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
  zapQuery,
  zapRequest,
} from '../helpers/zap-requests.ts';
import { type NutshellSite, nextUpdate, openNutshellSite } from './nutshell-site.ts';

/** Nutshell's fake backend pays every invoice by itself: on its socket after a second. */
const NUTSHELL = { FAKEWALLET_DELAY_INCOMING_PAYMENT: '1' };

const TIMEOUT_MS = 60_000;

let site: NutshellSite;

describe.each([
  ['its WebSocket alone', (path: string) => /^\/v1\/mint\/quote\/bolt11\/./.test(path)],
  ['polling alone', (path: string) => path === '/v1/ws'],
])('payments at Nutshell, seen through %s', (_way, blocks) => {
  beforeAll(async () => {
    site = await openNutshellSite({ nutshell: NUTSHELL, blocks });
  }, TIMEOUT_MS);

  afterAll(() => site[Symbol.asyncDispose]());

  it.each([
    [21, false],
    [34, true],
  ])(
    'end as %i sat in a wallet; locked: %s',
    async (amountSat, locked) => {
      const recipient = new TestWallet(site.service.publicOrigin);
      await recipient.send('PATCH', '/api/v2/user/lock', { lockQuotes: locked });
      const socket = await recipient.openSocket();
      const path = `/.well-known/lnurlp/${recipient.npub}?amount=${amountSat * 1000}`;
      const { body: invoice } = await request(site.service.url, path);
      const quoteId = await nextUpdate(socket);
      expect(await sdkOf(recipient).getAllQuotes()).toMatchObject([
        { quoteId, amount: amountSat, state: 'PAID', locked, mintUrl: site.mintUrl },
      ]);
      const verified = await request('', invoice.verify);
      expect(verified.body).toMatchObject({ status: 'OK', settled: true, pr: invoice.pr });

      const wallet = new Wallet(site.directUrl, { unit: 'sat' });
      await wallet.loadMint();
      const privkey = Buffer.from(recipient.secretKey).toString('hex');
      if (locked) {
        await expect(wallet.mintProofsBolt11(amountSat, quoteId)).rejects.toThrow();
      }
      const options = locked ? { privkey } : {};
      const proofs = await wallet.mintProofsBolt11(amountSat, quoteId, options);
      expect(sumProofs(proofs).toNumber()).toBe(amountSat);
      expect(await nextUpdate(socket)).toBe(quoteId);
      expect(await recipient.listQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
      await socket.close();
    },
    TIMEOUT_MS,
  );
});

describe('at Nutshell', () => {
  beforeAll(async () => {
    const env = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY };
    site = await openNutshellSite({ nutshell: NUTSHELL, env });
  }, TIMEOUT_MS);

  afterAll(() => site[Symbol.asyncDispose]());

  it('a paid zap has its receipt at the relay that the payer reads', async () => {
    const relay = await TestRelay.start();
    onTestFinished(() => relay.close());
    const { npub, pubkey } = new TestWallet(site.service.publicOrigin);
    const { text } = zapRequest({ recipient: pubkey, amountMsat: 21_000, relays: [relay.url] });
    const path = `/.well-known/lnurlp/${npub}?${zapQuery(text, 21_000)}`;
    const { pr } = (await request(site.service.url, path)).body;
    expect(invoiceField(pr, 'description')).toContain(npub);

    await relay.waitFor(1);
    const [receipt] = [...relay.events.values()];
    expect(receipt).toMatchObject({ kind: 9735, pubkey: TEST_ZAP_PUBKEY, content: '' });
    expect(receipt !== undefined && verifyEvent(receipt)).toBe(true);
    expect(receipt?.tags).toContainEqual(['bolt11', pr]);
    expect(receipt?.tags).toContainEqual(['description', text]);
    expect(nip57.validateZapRequest(text)).toBeNull();
  });

  it.each([
    ['thanks for the nuts', 'thanks for the nuts'],
    ['🥜'.repeat(255), '🥜'.repeat(159)],
  ])('a comment is the description of the invoice: %s', async (comment, description) => {
    const { npub } = new TestWallet(site.service.publicOrigin);
    const query = `amount=21000&comment=${encodeURIComponent(comment)}`;
    const path = `/.well-known/lnurlp/${npub}?${query}`;
    const { pr } = (await request(site.service.url, path)).body;
    expect(invoiceField(pr, 'description')).toBe(description);
  });
});
