import type { Route } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import { saveMintHealth } from '../../src/mints/mint-store.ts';
import { startHostileMint } from '../helpers/mints/fake-hostile-mint.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { heading, openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Choosing the mint and locking quotes on the account page. */

const environment = useTestEnvironment({ overrides: { fetchLimits: { totalTimeoutMs: 2_000 } } });
const browser = useBrowser();

async function openMintSection() {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet, { expectedStatuses: [400] });
  const content = section(page, 'Your mint');
  const dialog = page.getByRole('dialog');
  const checkMint = async (url: string) => {
    await content.getByLabel('Choose another mint').fill(url);
    await content.getByRole('button', { name: 'Check this mint' }).click();
  };
  const chooseMint = async (url: string) => {
    await checkMint(url);
    await dialog.getByRole('button', { name: 'Use this mint' }).click();
  };
  return { wallet, page, content, dialog, checkMint, chooseMint };
}

async function fetchSettings(wallet: RecipientClient) {
  const { body } = await wallet.get('/api/v2/user/info');
  return body.data.user;
}

it('shows the mint, and changes it after a look at another one', async () => {
  const { wallet, page, content, dialog, checkMint, chooseMint } = await openMintSection();
  await content.getByText('Test mint').waitFor();
  await content.getByText(environment.mint.url).waitFor();
  const otherMint = await startTestMint({
    name: 'Other mint',
    description: 'For friends.',
    maxAmountSat: 5_000,
  });
  await checkMint(otherMint.url);
  await dialog.getByText('Other mint', { exact: true }).waitFor();
  expect(await dialog.getByText('has not answered').count()).toBe(0);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  const failingSinceMs = Date.UTC(2026, 0, 31, 12);
  const health = {
    mintUrl: otherMint.url,
    answeredAtMs: null,
    failingSinceMs,
    failure: 'timed out',
  };
  await saveMintHealth(environment.database.db, [health]);
  await checkMint(otherMint.url);
  await dialog.getByText('has not answered this server’s checks since Jan 31, 2026').waitFor();
  await dialog.getByText('For friends.').waitFor();
  await dialog.getByText('Largest payment: 5,000 sats.').waitFor();
  await inspectPage(page, 'account-mint');
  await page.keyboard.press('Escape');
  expect(await dialog.count()).toBe(0);
  expect(await fetchSettings(wallet)).toMatchObject({ mintUrl: environment.mint.url });

  await chooseMint(otherMint.url);
  await content.getByRole('status').filter({ hasText: 'Saved.' }).waitFor();
  await content.getByText('Other mint', { exact: true }).waitFor();
  expect(await fetchSettings(wallet)).toMatchObject({ mintUrl: otherMint.url });
});

it('offers the mints that the operator recommends, except the current one', async () => {
  const recommended = await startTestMint({ name: 'Recommended mint' });
  const service = await useAdditionalService(environment, { SITE_MINTS: recommended.url });
  const page = await openAccount(browser, new RecipientClient(service.publicOrigin));
  const content = section(page, 'Your mint');
  const button = (url: string) => content.getByRole('button', { name: new URL(url).host });
  expect(await button(environment.mint.url).count()).toBe(0);
  await button(recommended.url).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Use this mint' }).click();
  await content.getByText('Recommended mint', { exact: true }).waitFor();
  await button(environment.mint.url).waitFor();
});

it('offers only the mints that the operator allows, with their names', async () => {
  const allowed = await startTestMint({ name: 'Allowed mint' });
  const ALLOWED_MINTS = `${environment.mint.url},${allowed.url}`;
  const service = await useAdditionalService(environment, { ALLOWED_MINTS });
  const page = await openAccount(browser, new RecipientClient(service.publicOrigin));
  const content = section(page, 'Your mint');
  await content.getByText('This server lets you choose one of these mints:').waitFor();
  expect(await content.getByRole('textbox').count()).toBe(0);
  await content.getByRole('button', { name: 'Allowed mint' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Use this mint' }).click();
  await content.getByRole('status').filter({ hasText: 'Saved.' }).waitFor();
  await inspectPage(page, 'account-allowed-mints');
});

it('says what is wrong with a mint, and keeps the current one', async () => {
  const { wallet, page, content, checkMint } = await openMintSection();
  const uselessMint = await startTestMint({ isMintingDisabled: true });
  const unresponsiveMint = await startTestMint({ isUnresponsive: true });
  const redirecting = await startHostileMint(
    (connection) =>
      connection.end('HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n'),
    { hasHostileInfo: true },
  );
  onTestFinished(() => redirecting.close());
  const check = async (url: string, problem: string) => {
    await checkMint(url);
    await content.getByRole('alert').filter({ hasText: problem }).waitFor();
    expect(await content.getByLabel('Choose another mint').inputValue()).toBe(url);
  };
  const previews: string[] = [];
  page.on('request', (request) => {
    if (request.url().includes('/preview')) {
      previews.push(request.url());
    }
  });
  for (const url of ['', 'no url', 'https://']) {
    await check(url, 'The address of a mint looks like https://mint.example.');
  }
  expect(previews).toEqual([]);
  for (const url of ['ftp://mint.example', 'https://mint.example/?a=b']) {
    await check(url, 'The address of a mint looks like https://mint.example.');
  }
  await check('http://127.0.0.1:1', 'No program accepts connections');
  await check(environment.origin, 'is not a mint');
  await check(uselessMint.url, 'accepts no Lightning payments in sats');
  await check(redirecting.url, 'leads to another one');
  await check(unresponsiveMint.url, 'did not respond in time');
  await page.setViewportSize({ width: 360, height: 640 });
  expect(await heading(page, 'Your mint').isVisible()).toBe(true);
  expect(await fetchSettings(wallet)).toMatchObject({ mintUrl: environment.mint.url });
});

it('locks quotes if the mint can do that', async () => {
  const { wallet, content, dialog, checkMint, chooseMint } = await openMintSection();
  const lock = content.getByRole('checkbox', { name: 'Lock payments' });
  await lock.click();
  await content.getByText('New payments are locked').waitFor();
  expect(await fetchSettings(wallet)).toMatchObject({ lockQuote: true });

  const simpleMint = await startTestMint({ supportsLocking: false });
  await chooseMint(simpleMint.url);
  await dialog.getByRole('alert').filter({ hasText: 'This mint cannot lock payments' }).waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await checkMint(environment.mint.url);
  await dialog.getByText('This is your mint already.').waitFor();
  await dialog.getByText('Test mint').waitFor();
  expect(await dialog.getByRole('alert').count()).toBe(0);
  expect(await dialog.getByRole('button', { name: 'Use this mint' }).count()).toBe(0);
  await dialog.getByRole('button', { name: 'Close' }).click();

  await lock.click();
  await content.getByText('New payments are not locked').waitFor();
  await chooseMint(simpleMint.url);
  await content.getByText('It cannot lock payments').waitFor();
  await lock.click();
  await content.getByRole('alert').filter({ hasText: 'Your mint cannot lock payments' }).waitFor();
  expect(await content.getByText('Saved.').count()).toBe(0);
  expect(await lock.isChecked()).toBe(false);
  expect(await fetchSettings(wallet)).toMatchObject({ lockQuote: false });
  await chooseMint(environment.mint.url);
  await content.getByText('Saved. Future payments').waitFor();
  expect(await content.getByRole('alert').count()).toBe(0);
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
