import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { fetchUsernameOwner } from '../helpers/recipients/username-requests.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { openAccount, section } from '../helpers/web/account-page.ts';
import { readQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Choosing and buying a username on the account page. */

const PRICE_SAT = 21;

const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT), USERNAME_RESERVED: 'satoshi' },
});
const browser = useBrowser();
let payer: EcashPayer;

beforeAll(async () => {
  payer = await EcashPayer.open(environment.mint);
});

async function openUsernameSection() {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, { expectedStatuses: [400, 402, 409, 431] });
  const content = section(page, 'Username');
  const waitForAlert = (hasText: string | RegExp) =>
    content.getByRole('alert').filter({ hasText }).waitFor();
  return { wallet, page, content, waitForAlert };
}

async function chooseName(page: Page, name: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Username' }).fill(name);
  await page.getByRole('button', { name: 'Buy this name' }).click();
}

async function pay(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token from your wallet').fill(token);
  await page.getByRole('button', { name: 'Buy', exact: true }).click();
}

it('shows while the user types whether a name is available', async () => {
  await assignUsername(environment.database, environment.newWallet().pubkey, 'owned');
  const { page, content } = await openUsernameSection();
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

it('sells a name for a token', async () => {
  const { wallet, page, content } = await openUsernameSection();
  await chooseName(page, 'Buyer');
  const requestText = content.locator('code').filter({ hasText: /^creqA/ });
  await requestText.waitFor();
  const qrCode = content.getByRole('img', { name: 'payment request' });
  expect(await readQrCode(qrCode)).toBe(await requestText.textContent());

  await pay(page, await payer.mintToken(PRICE_SAT));
  const address = `buyer@${new URL(environment.origin).host}`;
  await content.getByText(`${address} is yours now`).waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'buyer')).toBe(wallet.pubkey);
  await content.locator('code', { hasText: address }).waitFor();
});

it('keeps the token in its field after each refusal', async () => {
  const { wallet, page, content, waitForAlert } = await openUsernameSection();
  const tokenField = page.getByLabel('Token from your wallet');
  await chooseName(page, 'satoshi');
  await waitForAlert(/reserved.*Choose another name/i);
  await chooseName(page, 'x');
  await waitForAlert('Choose another name');
  await chooseName(page, 'wanted');

  const smallToken = await payer.mintToken(PRICE_SAT - 1);
  await pay(page, smallToken);
  await waitForAlert('The name was not bought');
  expect(await tokenField.inputValue()).toBe(smallToken);

  const spentToken = await payer.mintToken(PRICE_SAT);
  await payer.wallet.receive(spentToken);
  await pay(page, spentToken);
  await waitForAlert(/spent.*The name was not bought/);
  expect(await tokenField.inputValue()).toBe(spentToken);

  const longToken = `cashuB${'a'.repeat(80_000)}`;
  await pay(page, longToken);
  await waitForAlert('The token is too long');
  expect(await tokenField.inputValue()).toBe(longToken);
  await pay(page, longToken.slice(0, 17_000));
  await waitForAlert(/too large.*16 KB/);

  await pay(page, 'cashuBgarbage');
  await waitForAlert('token');
  expect(await tokenField.inputValue()).toBe('cashuBgarbage');

  // Somebody else is faster.
  await assignUsername(environment.database, environment.newWallet().pubkey, 'wanted');
  const token = await payer.mintToken(PRICE_SAT);
  await pay(page, token);
  await waitForAlert('Your token is still in the field.');
  expect(await tokenField.inputValue()).toBe(token);
  expect(await payer.fetchTokenState(token)).toBe('UNSPENT');

  await page.getByRole('button', { name: 'Choose another name' }).click();
  await chooseName(page, 'second');
  await expect.poll(() => tokenField.inputValue()).toBe(token);
  await page.getByRole('button', { name: 'Buy', exact: true }).click();
  await content.getByText('is yours now').waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'second')).toBe(wallet.pubkey);
});
