import { Wallet } from '@cashu/cashu-ts';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { startNutshellDeployment, waitForUpdate } from './nutshell-deployment.ts';

it('shows no deadline at Nutshell, which issues a payment after its expiry', async () => {
  const nutshellEnv = { FAKEWALLET_DELAY_INCOMING_PAYMENT: '1', MINT_QUOTE_TTL: '3' };
  const deployment = await startNutshellDeployment({ nutshellEnv });
  onTestFinished(() => deployment[Symbol.asyncDispose]());
  const { mintUrl, service } = deployment;
  const recipient = new RecipientClient(service.publicOrigin);
  const socket = await recipient.openSocket();
  await requestJson(service.url, `/.well-known/lnurlp/${recipient.npub}?amount=8000`);
  const quoteId = await waitForUpdate(socket);
  await socket.close();
  const [quote] = await recipient.listPaidQuotes();
  expect(quote).toMatchObject({ quoteId, state: 'PAID' });
  expect(quote).not.toHaveProperty('collectBy');

  const { expiresAt } = quote as { expiresAt: number };
  await eventually(() => expect(Date.now() / 1_000).toBeGreaterThan(expiresAt + 2));
  const wallet = new Wallet(mintUrl, { unit: 'sat' });
  await wallet.loadMint();
  const proofs = await wallet.mintProofsBolt11(8, quoteId);
  expect(proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0)).toBe(8);
});
