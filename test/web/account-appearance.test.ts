import { expect, it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { openAccount, section } from '../helpers/web/account-page.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** How the account page looks: accessible, in both colour schemes, on any screen. */

const environment = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '2100' } });
const browser = useBrowser();

it('signing in', async () => {
  const relay = await startFakeRelay();
  const service = await useAdditionalService(environment, { SIGNER_RELAY: relay.url });
  const page = await browser.openPage(`${service.publicOrigin}/account`, { relays: [relay.url] });
  await page.getByLabel('Bunker address').fill('bunker://incomplete');
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await inspectPage(page, 'account-sign-in');
  await page.getByRole('button', { name: 'Show QR code' }).click();
  await page.getByRole('img', { name: 'QR code' }).waitFor();
  await inspectPage(page, 'account-remote-signer');
});

it('a new user', async () => {
  const page = await openAccount(browser, environment.newWallet());
  const payments = section(page, 'Received payments');
  await payments.getByText('You have no payments yet').waitFor();
  await payments.getByText('Live', { exact: true }).waitFor();
  await section(page, 'Your mint').getByText('Test mint').waitFor();
  await section(page, 'Your addresses').getByRole('img').waitFor();
  await inspectPage(page, 'account-new');
});

it('a user with payments and a long username', async () => {
  const wallet = environment.newWallet();
  await insertPaidQuotes(environment.database, wallet.pubkey, 12);
  await assignUsername(environment.database, wallet.pubkey, 'w'.repeat(64));
  await receivePayment(environment, wallet, `amount=1000000000&comment=${'W'.repeat(255)}`);
  const page = await openAccount(browser, wallet);
  await expect.poll(() => page.getByRole('listitem').count()).toBe(10);
  await section(page, 'Your mint').getByText('Test mint').waitFor();
  await section(page, 'Your addresses').getByRole('img').first().waitFor();
  await inspectPage(page, 'account-payments');
});

it('buying a username, and problems', async () => {
  const page = await openAccount(browser, environment.newWallet(), {
    expectedStatuses: [400, 402],
  });
  await page.getByRole('textbox', { name: 'Username' }).fill('x'.repeat(64));
  await page.getByRole('button', { name: 'Buy this name' }).click();
  await page.getByLabel('Token from your wallet').fill('cashuB'.repeat(100));
  await page.getByRole('button', { name: 'Buy', exact: true }).click();
  await section(page, 'Username').getByRole('alert').waitFor();
  await page.getByLabel('Choose another mint').fill(`https://${'w'.repeat(60)}.invalid`);
  await page.getByRole('button', { name: 'Use this mint' }).click();
  await section(page, 'Your mint').getByRole('alert').waitFor();
  await inspectPage(page, 'account-purchase');
});
