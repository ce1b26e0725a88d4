import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { findWidthProblems, inspectPage, saveScreenshot } from '../helpers/web/inspect-page.ts';
import {
  addNostrExtension,
  createInvoice,
  heading,
  openAccount,
  section,
} from '../helpers/web/pages.ts';
import { readAddressQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** How the pages look: accessible, in both colour schemes, on any screen. */

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
  await page.getByRole('alertdialog').getByRole('button').click();
  await page.getByLabel('Name, npub or address').fill(`nostr:${environment.newWallet().npub}`);
  await page.getByRole('button', { name: 'Continue' }).click();
  await heading(page, 'Pay npub1').waitFor();
});

it('payment and invoice', async () => {
  const { npub } = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/${npub}`, {
    expectedStatuses: [400],
    prepare: ({ clock }) => clock.install(),
  });
  await inspectPage(page, 'payment');
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
  expect(await findWidthProblems(page, 'payment-username')).toEqual([]);
  environment.mint.pay(await createInvoice(page, 1_000_000));
  await heading(page, 'Paid').waitFor();
  await inspectPage(page, 'invoice-paid');
});

it('prints a sheet for a counter and a receipt, in black on white', async () => {
  const { npub } = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/${npub}`);
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  const address = `${npub}@${new URL(environment.origin).host}`;
  expect((await readVisibleText(page)).replace(/^.*…/s, '…')).toBe(
    `…${npub.slice(-6)}${address.slice(npub.length)} ${address}`,
  );
  expect(await page.getByRole('img', { name: 'QR code' }).isVisible()).toBe(true);
  expect(await readColors(page)).toEqual(['rgb(0, 0, 0)', 'rgb(255, 255, 255)']);

  await page.emulateMedia({ media: 'screen' });
  environment.mint.pay(await createInvoice(page, 2_100, 'Table 4'));
  await heading(page, 'Paid').waitFor();
  await page.emulateMedia({ media: 'print' });
  expect(await readVisibleText(page)).toMatch(
    RegExp(
      `^2,100 sats to npub1.*@localhost:\\d+ Paid ${address} received your payment. \\w+ \\d.* at \\d.* Table 4$`,
    ),
  );
  await saveScreenshot(page, 'receipt-print');
});

it('has buttons as wide as the screen of a phone', async () => {
  const page = await browser.openPage(`${environment.origin}/${environment.newWallet().npub}`, {
    viewport: { width: 360, height: 740 },
  });
  const [form, button] = await Promise.all(
    [page.locator('form'), page.locator('#create-invoice')].map((part) => part.boundingBox()),
  );
  expect(button?.width).toBe(form?.width);
});

it('error', async () => {
  const url = `${environment.origin}/${'w'.repeat(200)}`;
  const page = await browser.openPage(url, { expectedStatuses: [404] });
  await inspectPage(page, 'error');
  await page.getByRole('link', { name: 'Go to the start page' }).click();
  await heading(page, 'Every Nostr key has a Lightning address').waitFor();
});

it('the offer of a free name, which the account page fills in', async () => {
  const { secretKey } = environment.newWallet();
  const prepare = (newPage: Page) => addNostrExtension(newPage, secretKey);
  const options = { prepare, expectedStatuses: [404] };
  const page = await browser.openPage(`${environment.origin}/FreeName`, options);
  await heading(page, 'freename is available').waitFor();
  await page.getByText('The name costs 2,100 sats.').waitFor();
  await inspectPage(page, 'free-name');
  await page.getByRole('link', { name: 'Get this name' }).click();
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  await page.getByText(/freename@.* is available/).waitFor();
  const field = page.getByRole('textbox', { name: 'Username' });
  expect(await field.inputValue()).toBe('freename');
  expect(await field.evaluate((element) => element === document.activeElement)).toBe(true);
});

it('signing in to the account', async () => {
  const relay = await startFakeRelay();
  const service = await useAdditionalService(environment, { SIGNER_RELAY: relay.url });
  const page = await browser.openPage(`${service.publicOrigin}/account`, { relays: [relay.url] });
  await page.getByLabel('Signer address').fill('bunker://incomplete');
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await inspectPage(page, 'account-sign-in');
  await page.getByRole('button', { name: 'Show QR code' }).click();
  await page.getByRole('img', { name: 'QR code' }).waitFor();
  await inspectPage(page, 'account-remote-signer');
});

it('the account of a new user', async () => {
  const page = await openAccount(browser, environment.newWallet());
  const payments = section(page, 'Received payments');
  await payments.getByText('You have no payments yet').waitFor();
  await payments.getByText('Live', { exact: true }).waitFor();
  await section(page, 'Your mint').getByText('Test mint').waitFor();
  await section(page, 'Your addresses').getByRole('img').waitFor();
  await inspectPage(page, 'account-new');
});

it('the account of a user with payments and a long username', async () => {
  const wallet = environment.newWallet();
  await insertPaidQuotes(environment.database, wallet.pubkey, 12);
  await assignUsername(environment.database, wallet.pubkey, 'm'.repeat(64));
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
  await page.getByLabel('Choose another mint').fill(`https://${'w'.repeat(60)}.invalid`);
  await page.getByRole('button', { name: 'Check this mint' }).click();
  await section(page, 'Your mint').getByRole('alert').waitFor();
  await inspectPage(page, 'account-problem');
  await page.getByRole('textbox', { name: 'Username' }).fill('x'.repeat(64));
  await page.getByRole('button', { name: 'Buy this name' }).click();
  await page.getByRole('button', { name: 'Pay with another Cashu wallet' }).click();
  await page.getByLabel('Token from your wallet').fill('cashuB'.repeat(100));
  await page.getByRole('button', { name: 'Buy', exact: true }).click();
  await section(page, 'Buy ').getByRole('alert').waitFor();
  await inspectPage(page, 'collect-username-token');
});

it('shows buttons, fields and QR codes in the colors that a user forces on pages', async () => {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, { forcedColors: 'active', colorScheme: 'dark' });
  const qrCode = section(page, 'Your addresses').getByRole('img').first();
  expect((await readAddressQrCode(qrCode)).pageUrl).toContain(wallet.npub);
  for (const path of ['/', `/${wallet.npub}`, '/account']) {
    await page.goto(`${environment.origin}${path}`);
    const describeControls = () => page.evaluate<string[]>(DESCRIBE_CONTROLS);
    await expect.poll(async () => (await describeControls()).length).toBeGreaterThan(1);
    const controls = await describeControls();
    expect(controls.filter((border) => border !== '1px solid')).toEqual([]);
  }
});

it('fits a phone and cuts nothing if text is twice as large', async () => {
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=100000000&comment=Table%204');
  const page = await openAccount(browser, wallet, { viewport: { width: 360, height: 740 } });
  await inspectLargeText(page, '.payments details');
  for (const [path, part] of [
    ['/collect', '#collect .total'],
    ['/', '#recipient'],
    [`/${wallet.npub}`, '#amount'],
  ] as const) {
    await page.goto(`${environment.origin}${path}`);
    await inspectLargeText(page, part);
  }
  environment.mint.pay(await createInvoice(page, 100_000));
  await heading(page, 'Paid').waitFor();
  await inspectLargeText(page, '.paid');
});

/** A script that returns the borders of buttons and fields. */
const DESCRIBE_CONTROLS = `
  [...document.querySelectorAll('button, .button, input:not([type=checkbox]), textarea')]
    .filter((element) => element.checkVisibility())
    .map((element) => getComputedStyle(element))
    .map(({ borderTopWidth, borderTopStyle }) => borderTopWidth + ' ' + borderTopStyle)`;

/** A script that returns the texts that are cut, or wider than their buttons, unless a style shortens them. */
const FIND_CUT_TEXTS = `
  [...document.querySelectorAll('header *, main *, footer *')]
    .filter((element) => element.checkVisibility() && element.clientWidth > 1)
    .filter((element) => {
      const { overflowX, textOverflow } = getComputedStyle(element);
      const isCut = overflowX === 'hidden' && textOverflow === 'clip';
      return (isCut || element.matches('button, .button')) &&
        (element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight);
    })
    .map((element) => element.textContent)`;

async function inspectLargeText(page: Page, part: string): Promise<void> {
  await page.locator(part).first().waitFor();
  await page.waitForLoadState();
  await page.evaluate(`document.documentElement.style.fontSize = '200%'`);
  const width = await page.evaluate('document.documentElement.scrollWidth');
  const cutTexts = await page.evaluate(FIND_CUT_TEXTS);
  await saveScreenshot(page, `large-text-${new URL(page.url()).pathname.replaceAll('/', '-')}`);
  expect({ width, cutTexts }, page.url()).toEqual({ width: 360, cutTexts: [] });
}

async function readVisibleText(page: Page): Promise<string> {
  return (await page.evaluate<string>('document.body.innerText')).replace(/\s+/g, ' ').trim();
}

/** Returns the colors of the text and of the page behind it. */
async function readColors(page: Page): Promise<string[]> {
  return page.evaluate(`[...new Set([
    ...[...document.querySelectorAll('main *')]
      .filter((element) => element.checkVisibility())
      .map((element) => getComputedStyle(element).color),
    getComputedStyle(document.body).backgroundColor,
  ])]`);
}
