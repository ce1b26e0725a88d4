import { sumProofs, Wallet } from '@cashu/cashu-ts';
import { nip57, verifyEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { readInvoiceField } from '../helpers/invoice-field.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { createSdkClient } from '../helpers/wallet-sdk.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/zap-requests.ts';
import {
  type NutshellDeployment,
  startNutshellDeployment,
  waitForUpdate,
} from './nutshell-deployment.ts';

/** Nutshell's fake backend pays every invoice by itself: on its socket after a second. */
const NUTSHELL = { FAKEWALLET_DELAY_INCOMING_PAYMENT: '1' };

const TIMEOUT_MS = 60_000;

let site: NutshellDeployment;

describe.each([
  ['its WebSocket alone', (path: string) => /^\/v1\/mint\/quote\/bolt11\/./.test(path)],
  ['polling alone', (path: string) => path === '/v1/ws'],
])('payments at Nutshell, seen through %s', (_way, blocks) => {
  beforeAll(async () => {
    site = await startNutshellDeployment({ nutshell: NUTSHELL, shouldBlock: blocks });
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
      const { body: invoice } = await requestJson(site.service.url, path);
      const quoteId = await waitForUpdate(socket);
      expect(await createSdkClient(recipient).getAllQuotes()).toMatchObject([
        { quoteId, amount: amountSat, state: 'PAID', locked, mintUrl: site.mintUrl },
      ]);
      const verified = await requestJson('', invoice.verify);
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
      expect(await waitForUpdate(socket)).toBe(quoteId);
      expect(await recipient.listQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
      await socket.close();
    },
    TIMEOUT_MS,
  );
});

describe('at Nutshell', () => {
  beforeAll(async () => {
    const env = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY };
    site = await startNutshellDeployment({ nutshell: NUTSHELL, env });
  }, TIMEOUT_MS);

  afterAll(() => site[Symbol.asyncDispose]());

  it('a paid zap has its receipt at the relay that the payer reads', async () => {
    const relay = await TestRelay.start();
    onTestFinished(() => relay.close());
    const { npub, pubkey } = new TestWallet(site.service.publicOrigin);
    const { text } = createZapRequest({
      recipient: pubkey,
      amountMsat: 21_000,
      relays: [relay.url],
    });
    const path = `/.well-known/lnurlp/${npub}?${buildZapQuery(text, 21_000)}`;
    const { pr } = (await requestJson(site.service.url, path)).body;
    expect(readInvoiceField(pr, 'description')).toContain(npub);

    await relay.waitForEvents(1);
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
    const { pr } = (await requestJson(site.service.url, path)).body;
    expect(readInvoiceField(pr, 'description')).toBe(description);
  });
});
