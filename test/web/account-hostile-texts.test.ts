import { nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { openAccount, section } from '../helpers/web/account-page.ts';
import { hostileTexts, startFailingMint } from '../helpers/web/hostile-texts.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Texts of payers and mints never run on the account page. `useBrowser` reports a text that runs. */

const environment = useTestEnvironment({ env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY } });
const browser = useBrowser();

it('shows the texts of payers as texts', async () => {
  const wallet = environment.newWallet();
  const { pubkey: recipient } = wallet;
  const texts = hostileTexts('comment');
  for (const text of texts) {
    await receivePayment(environment, wallet, `amount=1000&comment=${encodeURIComponent(text)}`);
  }
  const zapText = hostileTexts('zap').join('\n');
  const zap = createZapRequest({ recipient, amountMsat: 1000, comment: zapText });
  await receivePayment(environment, wallet, buildZapQuery(zap.text, 1000));
  const page = await openAccount(browser, wallet);
  const payments = section(page, 'Received payments').getByRole('listitem');
  await expect.poll(() => payments.count()).toBe(texts.length + 1);
  const shownTexts = (await payments.allTextContents()).join('\n');
  for (const text of [...texts, zapText]) {
    expect(shownTexts).toContain(text);
  }
  await inspectPage(page, 'hostile-account');
});

it('shows the texts of mints as texts', async () => {
  const page = await openAccount(browser, environment.newWallet(), { expectedStatuses: [400] });
  const content = section(page, 'Your mint');
  const chooseMint = async (url: string) => {
    await content.getByLabel('Choose another mint').fill(url);
    await content.getByRole('button', { name: 'Use this mint' }).click();
  };
  for (const text of hostileTexts('mint')) {
    const mint = await startTestMint({ name: text, description: text });
    await chooseMint(mint.url);
    await content.getByText(mint.url, { exact: true }).waitFor();
    // The service cleans and shortens the texts of mints.
    const word = /\w{4,20}/.exec(text)?.[0] ?? '';
    await expect.poll(() => content.getByText(word).count()).toBeGreaterThanOrEqual(2);
  }
  const [error = ''] = hostileTexts('mint error');
  await chooseMint(await startFailingMint(error, { hasHostileInfo: true }));
  await content.getByRole('alert').waitFor();
});

it('refuses an nsec in every field', async () => {
  const wallet = environment.newWallet();
  const nsec = nip19.nsecEncode(wallet.secretKey);
  const signedOut = await browser.openPage(`${environment.origin}/account`);
  const signedIn = await openAccount(browser, wallet);
  for (const page of [signedOut, signedIn]) {
    await expect.poll(() => page.getByRole('textbox').count()).toBeGreaterThan(0);
    for (const field of await page.getByRole('textbox').all()) {
      await field.fill(`my key is ${nsec}`);
      await page.getByRole('alertdialog').getByRole('button').click();
      expect((await field.inputValue()).trim()).toBe('my key is');
    }
  }
});
