import { sumProofs, Wallet } from '@cashu/cashu-ts';
import { nip57, verifyEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { readInvoiceField } from '../helpers/recipients/invoice-field.ts';
import { createSdkClient } from '../helpers/recipients/npubcash-sdk.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import {
  type NutshellDeployment,
  startNutshellDeployment,
  waitForUpdate,
} from './nutshell-deployment.ts';

/** Nutshell's fake Lightning backend pays every invoice after one second, or earlier if the quote is read. */
const NUTSHELL_ENV = { FAKEWALLET_DELAY_INCOMING_PAYMENT: '1' };

let deployment: NutshellDeployment;

const isQuotePoll = (path: string) => /^\/v1\/mint\/quote\/bolt11\/./.test(path);
const isWebSocketUpgrade = (path: string) => path === '/v1/ws';

describe.each([
  { source: 'the WebSocket', shouldBlock: isQuotePoll },
  { source: 'polls', shouldBlock: isWebSocketUpgrade },
])('payments at Nutshell that the service learns about only through $source', ({ shouldBlock }) => {
  beforeAll(async () => {
    deployment = await startNutshellDeployment({ nutshellEnv: NUTSHELL_ENV, shouldBlock });
  });

  afterAll(() => deployment[Symbol.asyncDispose]());

  it.each([
    { kind: 'an unlocked', amountSat: 21, locked: false },
    { kind: 'a locked', amountSat: 34, locked: true },
  ])(
    'lets a wallet mint the ecash of $kind quote after its update',
    async ({ amountSat, locked }) => {
      const recipient = new RecipientClient(deployment.service.publicOrigin);
      await recipient.send('PATCH', '/api/v2/user/lock', { lockQuotes: locked });
      const socket = await recipient.openSocket();
      const path = `/.well-known/lnurlp/${recipient.npub}?amount=${amountSat * 1000}`;
      const { body: invoice } = await requestJson(deployment.service.url, path);
      const quoteId = await waitForUpdate(socket);
      expect(await createSdkClient(recipient).getAllQuotes()).toMatchObject([
        { quoteId, amount: amountSat, state: 'PAID', locked, mintUrl: deployment.mintUrl },
      ]);
      const verified = await requestJson('', invoice.verify);
      expect(verified.body).toMatchObject({ status: 'OK', settled: true, pr: invoice.pr });

      const wallet = new Wallet(deployment.directMintUrl, { unit: 'sat' });
      await wallet.loadMint();
      const privkey = Buffer.from(recipient.secretKey).toString('hex');
      if (locked) {
        await expect(wallet.mintProofsBolt11(amountSat, quoteId)).rejects.toThrow();
      }
      const options = locked ? { privkey } : {};
      const proofs = await wallet.mintProofsBolt11(amountSat, quoteId, options);
      expect(sumProofs(proofs).toNumber()).toBe(amountSat);
      expect(await waitForUpdate(socket)).toBe(quoteId);
      expect(await recipient.listPaidQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
      await socket.close();
    },
  );
});

describe('invoices from Nutshell', () => {
  beforeAll(async () => {
    const env = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY };
    deployment = await startNutshellDeployment({ nutshellEnv: NUTSHELL_ENV, env });
  });

  afterAll(() => deployment[Symbol.asyncDispose]());

  it('publishes the receipt of a paid zap at the relay in the zap request', async () => {
    const relay = await FakeNostrRelay.start();
    onTestFinished(() => relay.close());
    const { npub, pubkey } = new RecipientClient(deployment.service.publicOrigin);
    const { text } = createZapRequest({
      recipient: pubkey,
      amountMsat: 21_000,
      relays: [relay.url],
    });
    const path = `/.well-known/lnurlp/${npub}?${buildZapQuery(text, 21_000)}`;
    const { pr } = (await requestJson(deployment.service.url, path)).body;
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
    { length: 'a short', comment: 'thanks for the nuts' },
    // A description has at most 639 bytes (BOLT 11), and each of these characters has four.
    { length: 'a long', comment: '🥜'.repeat(159) },
  ])('puts $length comment into the invoice description', async ({ comment }) => {
    const { npub } = new RecipientClient(deployment.service.publicOrigin);
    const query = `amount=21000&comment=${encodeURIComponent(comment)}`;
    const path = `/.well-known/lnurlp/${npub}?${query}`;
    const { pr } = (await requestJson(deployment.service.url, path)).body;
    expect(readInvoiceField(pr, 'description')).toBe(comment);
  });
});
