import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { addNostrExtension, openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** What recipients read if their mint may refuse to issue expired quotes. */

const environment = useTestEnvironment({
  mint: { switches: { version: 'Other/1.0', refusesAfterExpiry: true } },
});
const browser = useBrowser();

it('shows how long a payment can be collected', async () => {
  // The pages show the minutes that are complete.
  const wallet = await newPaidWallet(35 * 60);
  const text = 'Collect within 34 minutes. The mint may refuse later.';
  const account = await openAccount(browser, wallet);
  await section(account, 'Waiting to be collected').getByText(text).waitFor();
  const payment = section(account, 'Received payments').getByRole('listitem');
  await payment.locator('summary').press('Enter');
  await payment.getByText('The mint may refuse after').waitFor();

  const collect = await openCollect(wallet);
  await section(collect, 'Waiting').getByText(text).waitFor();
  await collect.getByRole('button', { name: 'Collect' }).click();
  await section(collect, 'Waiting').getByText('Nothing is waiting').waitFor();
  expect(await collect.getByText('Collect within').isVisible()).toBe(false);
});

it('says what to do after the deadline', async () => {
  const wallet = await newPaidWallet(1);
  const collect = await openCollect(wallet);
  const waiting = section(collect, 'Waiting');
  await waiting.getByText('The time to collect 21 sats is over, so the mint may refuse.').waitFor();
  await collect.getByRole('button', { name: 'Collect' }).click();
  await waiting.getByText('refuses to pay out 21 sats. It says: quote expired').waitFor();

  const account = await openAccount(browser, wallet);
  const payment = section(account, 'Received payments').getByRole('listitem');
  await payment.locator('summary').press('Enter');
  await payment.getByText(/Since .+, the mint may refuse\..+ ask its operator/).waitFor();
  expect(await account.getByText('Collect within').isVisible()).toBe(false);
});

async function newPaidWallet(expirySeconds: number): Promise<RecipientClient> {
  environment.mint.switches.expirySeconds = expirySeconds;
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=21000');
  return wallet;
}

async function openCollect(wallet: RecipientClient): Promise<Page> {
  const page = await browser.openPage(`${wallet.origin}/collect`, {
    mints: [environment.mint.url],
    expectedStatuses: [400],
    prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey),
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  return page;
}
