import { expect, it } from 'vitest';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  setLockQuotes,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const environment = useTestEnvironment();

it('accepts only allowed mints, while a recipient at another mint is paid there until moved', async () => {
  const { mint, database } = environment;
  const oldMint = await startTestMint();
  const allowedMint = await startTestMint();
  const oldWallet = environment.newWallet();
  await setMint(oldWallet, oldMint.url);

  const ALLOWED_MINTS = `${allowedMint.url},${mint.url}/`;
  const service = await useAdditionalService(environment, { ALLOWED_MINTS });
  const wallet = new RecipientClient(service.publicOrigin, Date.now, oldWallet.secretKey);
  const refused = await setMint(new RecipientClient(service.publicOrigin), oldMint.url);
  expect(refused.status).toBe(400);
  expect(refused.body).toMatchObject({
    code: 'mint_not_allowed',
    message: expect.stringContaining(allowedMint.url),
  });
  const preview = await wallet.get(
    `/api/v2/user/mint/preview?url=${encodeURIComponent(oldMint.url)}`,
  );
  expect(preview.body.data).toEqual({ reason: 'not_allowed' });

  expect((await setLockQuotes(wallet, true)).status).toBe(200);
  const socket = await wallet.openSocket();
  const requestInvoice = async () => {
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    return (await requestJson(service.publicOrigin, path)).body;
  };
  oldMint.pay((await requestInvoice()).pr);
  await socket.nextMessage();
  await socket.close();
  expect(await wallet.listPaidQuotes()).toMatchObject([{ mintUrl: oldMint.url, amount: 21 }]);

  const options = {
    env: { DEFAULT_MINT_URL: mint.url, ALLOWED_MINTS: `${allowedMint.url},${mint.url}` },
  };
  const move = (url: string) =>
    runOperatorCommand(database, ['user', 'set-mint', wallet.npub, url], options);
  expect((await move(oldMint.url)).stderr).toContain('Not changed: This server only allows');
  expect(await move(allowedMint.url)).toMatchObject({ exitCode: 0 });
  await expect.poll(requestInvoice).toHaveProperty('pr');
  expect(allowedMint.quotes.size).toBe(1);
  expect((await setMint(wallet, mint.url)).status).toBe(200);
});
