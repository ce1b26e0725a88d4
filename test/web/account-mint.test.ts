import type { Route } from 'playwright-core';
import { expect, it } from 'vitest';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Choosing the mint and locking quotes on the account page. */

const environment = useTestEnvironment();
const browser = useBrowser();

async function openMintSection() {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, { expectedStatuses: [400] });
  const content = section(page, 'Your mint');
  const chooseMint = async (url: string) => {
    await content.getByLabel('Choose another mint').fill(url);
    await content.getByRole('button', { name: 'Use this mint' }).click();
  };
  return { wallet, page, content, chooseMint };
}

async function fetchSettings(wallet: RecipientClient) {
  const { body } = await wallet.get('/api/v2/user/info');
  return body.data.user;
}

it('shows the mint, and changes it', async () => {
  const { wallet, content, chooseMint } = await openMintSection();
  await content.getByText('Test mint').waitFor();
  await content.getByText(environment.mint.url).waitFor();
  const otherMint = await startTestMint({ name: 'Other mint', description: 'For friends.' });
  await chooseMint(otherMint.url);
  await content.getByRole('status').filter({ hasText: 'Saved.' }).waitFor();
  await content.getByText('Other mint', { exact: true }).waitFor();
  await content.getByText('For friends.').waitFor();
  expect(await fetchSettings(wallet)).toMatchObject({ mintUrl: otherMint.url });
});

it('says what is wrong with a mint, and keeps the current one', async () => {
  const { wallet, content, chooseMint } = await openMintSection();
  const uselessMint = await startTestMint({ isMintingDisabled: true });
  for (const [url, problem] of [
    ['', 'Enter the address of a mint'],
    ['no url', 'not a web address'],
    ['ftp://mint.example', 'starts with https://'],
    ['http://127.0.0.1:1', 'could not use this mint, and nothing was changed'],
    [uselessMint.url, 'could not use this mint, and nothing was changed'],
  ] as const) {
    await chooseMint(url);
    await content.getByRole('alert').filter({ hasText: problem }).waitFor();
    expect(await content.getByLabel('Choose another mint').inputValue()).toBe(url);
  }
  expect(await fetchSettings(wallet)).toMatchObject({ mintUrl: environment.mint.url });
});

it('locks quotes if the mint can do that', async () => {
  const { wallet, content, chooseMint } = await openMintSection();
  const lock = content.getByRole('checkbox', { name: 'Lock payments' });
  await lock.click();
  await content.getByText('New payments are locked').waitFor();
  expect(await fetchSettings(wallet)).toMatchObject({ lockQuote: true });

  const simpleMint = await startTestMint({ supportsLocking: false });
  await chooseMint(simpleMint.url);
  await content.getByRole('alert').filter({ hasText: 'This mint cannot lock payments' }).waitFor();

  await lock.click();
  await content.getByText('New payments are not locked').waitFor();
  await chooseMint(simpleMint.url);
  await content.getByText('It cannot lock payments').waitFor();
  await lock.click();
  await content.getByRole('alert').filter({ hasText: 'This mint cannot lock payments' }).waitFor();
  expect(await lock.isChecked()).toBe(false);
  expect(await fetchSettings(wallet)).toMatchObject({ lockQuote: false });
});

it('shows a new setting while it is saved, takes it back if that fails, and updates other tabs', async () => {
  const { page, content } = await openMintSection();
  const lock = content.getByRole('checkbox', { name: 'Lock payments' });
  const answer = Promise.withResolvers<void>();
  const fail = async (route: Route) => {
    await answer.promise;
    await route.fulfill({ status: 400, json: { code: 'invalid', message: 'Refused.' } });
  };
  await page.route('**/api/v2/user/lock', fail);
  await lock.click();
  await content.getByText('Saving…').waitFor();
  expect(await lock.isChecked()).toBe(true);
  answer.resolve();
  await content.getByRole('alert').filter({ hasText: 'Refused.' }).waitFor();
  expect(await lock.isChecked()).toBe(false);

  const secondTab = await page.context().newPage();
  await secondTab.goto(page.url());
  const secondLock = section(secondTab, 'Your mint').getByRole('checkbox');
  expect(await secondLock.isChecked()).toBe(false);
  await page.unroute('**/api/v2/user/lock');
  await lock.click();
  await expect.poll(() => secondLock.isChecked()).toBe(true);
});
