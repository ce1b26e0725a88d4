import { it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { createInvoice, heading } from '../helpers/web/payment-pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** How the pages for payers look: accessible, in both colour schemes, on any screen. */

const LONGEST_USERNAME = 'w'.repeat(64);

const environment = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '2100' } });
const browser = useBrowser();

it('home', async () => {
  const page = await browser.openPage(`${environment.origin}/`, { expectedStatuses: [400] });
  await inspectPage(page, 'home');
  await page.getByLabel('Name, npub or address').fill('w'.repeat(200));
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('alert').waitFor();
  await inspectPage(page, 'home-problem');
  await page.getByLabel('Name, npub or address').fill(`nsec1${'q'.repeat(58)}`);
  await page.getByRole('alertdialog').waitFor();
  await inspectPage(page, 'home-nsec');
});

it('payment and invoice', async () => {
  const { npub } = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/${npub}`, {
    expectedStatuses: [400],
    prepare: ({ clock }) => clock.install(),
  });
  await inspectPage(page, 'payment');
  await page.getByLabel('Amount in sats').evaluate((field) => field.removeAttribute('min'));
  await page.getByLabel('Amount in sats').fill('0');
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await page.getByRole('alert').waitFor();
  await inspectPage(page, 'payment-problem');
  await createInvoice(page, 21_000);
  await inspectPage(page, 'invoice');
  await page.clock.fastForward('02:00:00');
  await heading(page, 'This invoice has expired').waitFor();
  await inspectPage(page, 'invoice-expired');
});

it('payment and invoice of a long username', async () => {
  const { pubkey } = environment.newWallet();
  await assignUsername(environment.database, pubkey, LONGEST_USERNAME);
  const page = await browser.openPage(`${environment.origin}/${LONGEST_USERNAME}`);
  await inspectPage(page, 'payment-username');
  environment.mint.pay(await createInvoice(page, 1_000_000));
  await heading(page, 'Paid').waitFor();
  await inspectPage(page, 'invoice-paid');
});

it('error', async () => {
  const url = `${environment.origin}/${'w'.repeat(200)}`;
  const page = await browser.openPage(url, { expectedStatuses: [404] });
  await inspectPage(page, 'error');
});
