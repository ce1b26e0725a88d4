import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { fetchUsernameOwner } from '../helpers/recipients/username-requests.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import { readQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Choosing a username on the account page, and buying it with a token of another wallet. */

const PRICE_SAT = 21;

/** Longer than the pause before the recovery job tries again, but not too long for signatures. */
const RECOVERY_BACKOFF_MS = 20_000;

/** How far the service's clock is ahead of the browser's, which signs requests. */
let aheadMs = 0;
const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT), USERNAME_RESERVED: 'satoshi' },
  overrides: { clock: () => Date.now() + aheadMs },
});
const browser = useBrowser();
let payer: EcashPayer;

beforeAll(async () => {
  payer = await EcashPayer.open(environment.mint);
});

/** Chooses a name on the account page. */
async function chooseName(name: string) {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, { expectedStatuses: [400, 402, 409, 503] });
  await page.getByRole('textbox', { name: 'Username' }).fill(name);
  await page.getByRole('button', { name: 'Buy this name' }).click();
  return { wallet, page };
}

/** Chooses a name, and opens the form for a token of another wallet. */
async function openTokenForm(name: string) {
  const { wallet, page } = await chooseName(name);
  await page.getByRole('button', { name: 'Pay with another Cashu wallet' }).click();
  const content = section(page, 'Buy ');
  const waitForAlert = (hasText: string | RegExp) =>
    content.getByRole('alert').filter({ hasText }).waitFor();
  const tokenField = page.getByLabel('Token from your wallet');
  return { wallet, page, content, tokenField, waitForAlert };
}

async function pay(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token from your wallet').fill(token);
  await page.getByRole('button', { name: 'Buy', exact: true }).click();
}

it('shows while the user types whether a name is available', async () => {
  await assignUsername(environment.database, environment.newWallet().pubkey, 'owned');
  const page = await openAccount(browser, environment.newWallet());
  const content = section(page, 'Username');
  await content.getByText('A username costs 21 sats').waitFor();
  const field = page.getByRole('textbox', { name: 'Username' });
  for (const [name, message] of [
    ['al', 'A username has 3 to 64 letters'],
    ['npub1abc', 'A username has 3 to 64 letters'],
    ['Satoshi', 'is reserved'],
    ['owned', 'is taken'],
    ['Free', 'is available'],
  ] as const) {
    await field.fill('');
    await field.pressSequentially(name);
    await content.getByRole('status').filter({ hasText: message }).waitFor();
  }
});

it('says why a name cannot be bought', async () => {
  for (const [name, problem] of [
    ['satoshi', /reserved.*Choose another name/i],
    ['x', 'A username has 3 to 64 letters'],
  ] as const) {
    const { page } = await chooseName(name);
    const alert = section(page, 'Username').getByRole('alert');
    await alert.filter({ hasText: problem }).waitFor();
  }
});

it('sells a name for a token', async () => {
  const { wallet, page, content } = await openTokenForm('Buyer');
  const requestText = content.locator('code').filter({ hasText: /^creqA/ });
  await requestText.waitFor();
  const qrCode = content.getByRole('img', { name: 'payment request' });
  expect(await readQrCode(qrCode)).toBe(await requestText.textContent());

  await pay(page, await payer.mintToken(PRICE_SAT));
  const address = `buyer@${new URL(environment.origin).host}`;
  await content.getByText(`${address} is yours now`).waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'buyer')).toBe(wallet.pubkey);
  await page.getByRole('link', { name: 'Your account' }).click();
  const account = section(page, 'Username');
  await account.locator('code', { hasText: address }).waitFor();
  await account.getByText('For 30 days, only you can take it back').waitFor();
});

it('keeps the token in its field after each refusal', async () => {
  const { page, content, tokenField, waitForAlert } = await openTokenForm('wanted');

  const smallToken = await payer.mintToken(PRICE_SAT - 1);
  await pay(page, smallToken);
  await waitForAlert(/worth 20 sats; the username costs 21 sats.*The name was not bought/);
  expect(await tokenField.inputValue()).toBe(smallToken);

  const spentToken = await payer.mintToken(PRICE_SAT);
  await payer.wallet.receive(spentToken);
  await pay(page, spentToken);
  await waitForAlert(/spent.*The name was not bought/);
  await expect.poll(() => content.getByText('take it back').count()).toBe(0);
  expect(await tokenField.inputValue()).toBe(spentToken);

  const longToken = `cashuB${'a'.repeat(16 * 1024)}`;
  await pay(page, longToken);
  await waitForAlert('The token is too long');
  expect(await tokenField.inputValue()).toBe(longToken);

  await pay(page, 'cashuBgarbage');
  await waitForAlert('token');
  expect(await tokenField.inputValue()).toBe('cashuBgarbage');

  // Somebody else is faster.
  await assignUsername(environment.database, environment.newWallet().pubkey, 'wanted');
  const token = await payer.mintToken(PRICE_SAT);
  await pay(page, token);
  await waitForAlert('This name is taken.');
  expect(await tokenField.inputValue()).toBe(token);
  expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
});

it('keeps the token if a secret key is pasted beside it', async () => {
  const { page, tokenField } = await openTokenForm('careful');
  const token = await payer.mintToken(PRICE_SAT);
  await tokenField.fill(`${token} nsec1${'q'.repeat(58)}`);
  await page.getByRole('alertdialog').waitFor();
  expect((await tokenField.inputValue()).trim()).toBe(token);
});

it('accepts no other token while the first one may pay for the name', async () => {
  const { wallet, page, content, tokenField, waitForAlert } = await openTokenForm('frugal');
  const token = await payer.mintToken(PRICE_SAT);
  // The mint spends the token, but its response is lost.
  environment.mint.switches.chaos = {
    rates: {},
    ratesByRoute: { 'POST /v1/swap': { cutAfter: 1 }, 'POST /v1/restore': { error: 1 } },
  };
  await pay(page, token);
  await waitForAlert('in progress');
  expect(await tokenField.isEditable()).toBe(false);
  expect(await tokenField.inputValue()).toBe(token);

  environment.mint.switches.chaos = null;
  aheadMs = RECOVERY_BACKOFF_MS;
  await eventually(async () => {
    await page.getByRole('button', { name: 'Buy', exact: true }).click();
    await content.getByRole('status').getByText('frugal@').waitFor({ timeout: 2_000 });
  });
  expect(await fetchUsernameOwner(environment.origin, 'frugal')).toBe(wallet.pubkey);
});
