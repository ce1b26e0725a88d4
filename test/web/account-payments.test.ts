import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import type { Summary } from '../../src/http/web/browser/account/payments.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { FIRST_PAID_AT_MS, insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import {
  receivePayment,
  setLockQuotes,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { addNostrExtension, controlTime, openAccount, section } from '../helpers/web/pages.ts';
import { readAddressQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** The received payments and the addresses on the account page. */

const environment = useTestEnvironment({ env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY } });
const browser = useBrowser();

function toPayment(amountSat: number, index: number) {
  return { paidAtMs: FIRST_PAID_AT_MS + index * 1000, amountSat };
}

it('shows a payment and its collection as they happen', async () => {
  const wallet = environment.newWallet();
  const page = await openAccount(browser, wallet);
  const content = section(page, 'Received payments');
  await content.getByText('You have no payments yet').waitFor();
  await content.getByText('Live', { exact: true }).waitFor();

  const query = `amount=2100000&comment=${encodeURIComponent('for\nthe coffee')}`;
  const invoice = await receivePayment(environment, wallet, query);
  const payment = content.getByRole('listitem');
  await payment.getByText('2,100 sats').waitFor();
  await payment.getByText('waiting to be collected').waitFor();
  await payment.getByText('for the coffee').first().waitFor();
  await payment.getByText(`Mint: ${new URL(environment.mint.url).host}`).waitFor();
  const waiting = section(page, 'Waiting to be collected');
  await waiting.getByText('2,100 sats').waitFor();
  await waiting.getByText(`With the server ${environment.origin}, cashu.me`).waitFor();
  expect(await waiting.locator('.hint a').allTextContents()).toEqual(['cashu.me', 'coco']);
  await waiting.getByRole('link', { name: 'How to collect' }).click();
  expect(page.url()).toMatch(/#how-to-collect$/);
  await content.getByRole('status').filter({ hasText: 'New payment: 2,100 sats' }).waitFor();

  const quote = [...environment.mint.quotes.values()].find(({ request }) => request === invoice);
  await environment.mint.markIssued(quote?.id ?? '');
  await payment.getByText('collected', { exact: true }).waitFor();
});

it('shows the details of a payment', async () => {
  const wallet = environment.newWallet();
  await setLockQuotes(wallet, true);
  const comment = `for the coffee\n${'and a long story '.repeat(14)}`;
  const query = `amount=2100000&comment=${encodeURIComponent(comment)}`;
  await receivePayment(environment, wallet, query);
  const page = await openAccount(browser, wallet);
  const payment = section(page, 'Received payments').getByRole('listitem');
  const details = payment.locator('dl');
  expect(await details.isVisible()).toBe(false);
  await payment.locator('summary').press('Enter');
  await details.getByText('It waits until your wallet collects it.').waitFor();
  await details.getByText('Only a wallet that signs with your Nostr key').waitFor();
  // The page for collecting could not collect it.
  const waiting = section(page, 'Waiting to be collected');
  await waiting.getByText('They are locked to your Nostr key.').waitFor();
  expect(await waiting.getByRole('link').allTextContents()).toEqual([
    'How to collect with a wallet',
  ]);
  await details.getByText(environment.mint.url, { exact: true }).waitFor();
  const shownComment = details.locator('.comment');
  expect(await shownComment.textContent()).toBe(comment);
  expect(await shownComment.evaluate((element) => getComputedStyle(element).whiteSpace)).toBe(
    'pre-line',
  );
  await inspectPage(page, 'account-details');
});

it('marks new payments, and counts those that arrive while the tab is hidden in its title', async () => {
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=1000');
  const page = await openAccount(browser, wallet, {
    prepare: (newPage) => newPage.clock.install(),
  });
  const content = section(page, 'Received payments');
  const newPayments = content.getByRole('listitem').filter({ hasText: 'new' });
  await content.getByRole('listitem').getByText('1 sat', { exact: true }).waitFor();
  const title = await page.title();
  await receivePayment(environment, wallet, 'amount=21000');
  await newPayments.getByText('21 sats').waitFor();
  expect(await page.title()).toBe(title);

  await setHidden(page, true);
  for (const count of [1, 2]) {
    await receivePayment(environment, wallet, 'amount=34000');
    await page.clock.fastForward('00:10');
    await expect.poll(() => page.title()).toBe(`(${count}) ${title}`);
  }
  await content.getByRole('status').filter({ hasText: '2 new payments' }).waitFor();
  await setHidden(page, false);
  expect(await page.title()).toBe(title);
  await inspectPage(page, 'account-arrived');
  expect(await newPayments.getByText('34 sats').count()).toBe(2);
  expect(await newPayments.count()).toBe(2);
});

it('asks the signer again only when the user sees the page', async () => {
  const wallet = environment.newWallet();
  const wasHidden: boolean[] = [];
  const page = await browser.openPage(`${environment.origin}/account`, {
    expectedStatuses: [401],
    prepare: (newPage) =>
      addNostrExtension(newPage, wallet.secretKey, async () => {
        wasHidden.push(await newPage.evaluate('document.hidden'));
      }),
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  await section(page, 'Received payments').getByText('Live', { exact: true }).waitFor();
  await setHidden(page, true);
  const expired = page.waitForResponse((response) => response.status() === 401);
  await page.route('**/api/v2/wallet/**', (route) =>
    route.fulfill({ status: 401, json: { code: 'unauthorized', message: 'Expired.' } }),
  );
  await expired;
  await page.unroute('**/api/v2/wallet/**');
  const continued = page.waitForResponse('**/api/v2/wallet/quotes**');
  await setHidden(page, false);
  await continued;
  expect(wasHidden).toEqual([false, false]);
});

it('shows who zapped, and the tag of the address that was paid', async () => {
  const wallet = environment.newWallet();
  const path = `/.well-known/lnurlp/${wallet.npub}+shop?amount=21000`;
  environment.mint.pay((await requestJson(environment.origin, path)).body.pr);
  const { text } = createZapRequest({
    recipient: wallet.pubkey,
    amountMsat: 21_000,
    comment: 'great note',
  });
  await receivePayment(environment, wallet, buildZapQuery(text, 21_000));
  const page = await openAccount(browser, wallet);
  const payments = section(page, 'Received payments').getByRole('listitem');
  await payments.getByText('+shop', { exact: true }).waitFor();
  await payments.getByText('great note').first().waitFor();
  await payments.getByText('Zap from npub1').click();
  await payments.getByText(/^npub1[a-z0-9]{58}$/).waitFor();
});

it('pages through many payments, and exports all of them', async () => {
  const wallet = environment.newWallet();
  // Oldest first.
  const amounts = Array.from({ length: 60 }, (_, index) => index + 1);
  await insertPaidQuotes(environment.database, wallet.pubkey, amounts.map(toPayment));
  const page = await openAccount(browser, wallet, { acceptDownloads: true });
  const content = section(page, 'Received payments');
  await content.getByText('1,830 sats').first().waitFor();
  await content.getByText('60 payments').first().waitFor();

  const seenAmounts: number[] = [];
  for (let start = 1; start <= 51; start += 10) {
    await content.getByText(`${start}–${start + 9} of 60`).waitFor();
    const values = content.getByRole('listitem').locator('strong');
    seenAmounts.push(...(await values.allTextContents()).map((text) => Number.parseInt(text, 10)));
    if (start < 51) {
      await content.getByRole('button', { name: 'Older' }).click();
    }
  }
  expect(seenAmounts).toEqual(amounts.toReversed());
  const older = content.getByRole('button', { name: 'Older' });
  expect(await older.getAttribute('aria-disabled')).toBe('true');
  expect(await older.evaluate((element) => element === document.activeElement)).toBe(true);
  await content.getByRole('button', { name: 'Newer' }).click();
  await content.getByText('41–50 of 60').waitFor();

  const download = page.waitForEvent('download');
  await content.getByRole('button', { name: 'Export as CSV' }).click();
  const csv = await readFile(await (await download).path(), 'utf8');
  const [header, ...rows] = csv.trimEnd().split('\r\n');
  expect(header).toContain('time,amount_sat,state');
  expect(rows.map((row) => Number(row.split(',')[1]))).toEqual(seenAmounts);
});

/** Opens the account of a user with two payments, of which the summary says something else. */
async function openWithSummary(change: (summary: Summary) => Partial<Summary>): Promise<Page> {
  const wallet = environment.newWallet();
  await insertPaidQuotes(environment.database, wallet.pubkey, 2);
  return await openAccount(browser, wallet, {
    prepare: (newPage) =>
      newPage.route('**/api/v2/wallet/summary', async (route) => {
        const response = await route.fetch();
        const { data } = await response.json();
        await route.fulfill({ response, json: { data: { ...data, ...change(data) } } });
      }),
  });
}

it('says that more payments are arriving if the server has counted more than it lists', async () => {
  const page = await openWithSummary(() => ({ payments: 5 }));
  await page.getByText('3 more payments are arriving…').waitFor();
});

it('offers to collect if payments that the server does not count may wait', async () => {
  const page = await openWithSummary(({ waiting }) => ({
    waiting: { ...waiting, locked: 2 },
    complete: false,
  }));
  const content = section(page, 'Waiting to be collected');
  await content.getByText('2 payments (among your latest 2 payments)').waitFor();
  await content.getByRole('link', { name: 'Collect', exact: true }).waitFor();
});

it('shows the collection of old payments, on their page and in the totals', async () => {
  const wallet = environment.newWallet();
  const payments = Array<number>(12).fill(21).map(toPayment);
  await insertPaidQuotes(environment.database, wallet.pubkey, payments);
  const collect = (position: number) =>
    environment.database.db
      .updateTable('quotes')
      .set({ state: 'ISSUED' })
      .where('pubkey', '=', wallet.pubkey)
      .where('paid_seq', '=', position)
      .execute();
  const page = await openAccount(browser, wallet, {
    prepare: (newPage) => newPage.clock.install(),
  });
  const content = section(page, 'Received payments');
  const waiting = section(page, 'Waiting to be collected');
  await waiting.getByText('12 payments').waitFor();
  await collect(1);
  await page.clock.fastForward(30_000);
  await waiting.getByText('11 payments').waitFor();

  await content.getByRole('button', { name: 'Older' }).click();
  await content.getByText('11–12 of 12').waitFor();
  await collect(2);
  await content.getByText('collected', { exact: true }).nth(1).waitFor();
  await waiting.getByText('10 payments').waitFor();
});

it('reports that the server does not respond', async () => {
  const page = await openAccount(browser, environment.newWallet(), { prepare: controlTime });
  const content = section(page, 'Received payments');
  await content.getByText('Live', { exact: true }).waitFor();
  await page.route('**/api/v2/wallet/quotes**', () => undefined);
  await page.waitForRequest('**/api/v2/wallet/quotes**');
  await page.clock.fastForward('00:20');
  await content.getByText('The server did not respond.').waitFor();
  await content.getByText('Reconnecting…').waitFor();
});

it('shows the user’s addresses', async () => {
  const wallet = environment.newWallet();
  await assignUsername(environment.database, wallet.pubkey, 'addressee');
  const page = await openAccount(browser, wallet);
  const content = section(page, 'Your addresses');
  const address = `addressee@${new URL(environment.origin).host}`;
  const code = await readAddressQrCode(content.getByRole('img', { name: address }));
  expect(code.lnurlPayUrl).toBe(`${environment.origin}/.well-known/lnurlp/addressee`);
  expect(code.pageUrl).toContain(`${environment.origin}/addressee?`);
  await content.getByText(`${wallet.npub}@`).first().waitFor();
  await page.context().grantPermissions(['clipboard-write']);
  const copyButton = content.locator('[data-copy]').first();
  const width = await copyButton.evaluate((element) => element.getBoundingClientRect().width);
  await copyButton.click();
  await content.getByRole('status').filter({ hasText: 'Copied' }).waitFor({ state: 'attached' });
  expect(await copyButton.evaluate((element) => element.getBoundingClientRect().width)).toBe(width);
  await content.getByRole('link', { name: 'Payment page' }).first().click();
  await page.waitForURL('**/addressee');
});

it('makes a link and a QR code that request an amount', async () => {
  const wallet = environment.newWallet();
  const shared = Promise.withResolvers<ShareData>();
  const page = await openAccount(browser, wallet, {
    prepare: async (newPage) => {
      await newPage.exposeFunction('__share', shared.resolve);
      await newPage.addInitScript('navigator.share = (data) => globalThis.__share(data)');
    },
  });
  const content = section(page, 'Your addresses');
  await content.getByText('Request an amount').click();
  const qrCode = content.getByRole('img', { name: 'payment link' });
  const problem = content.getByRole('alert');
  const enter = async (amount: string, comment: string) => {
    await content.getByLabel('Amount in sats').fill(amount);
    await content.getByLabel('Comment').fill(comment);
  };
  await enter('1.5', '');
  await problem.filter({ hasText: 'without decimal places' }).waitFor();
  await enter('0', '');
  await problem.filter({ hasText: 'at least 1 sat' }).waitFor();
  await enter('1,000,001', '');
  await problem.filter({ hasText: 'at most 1,000,000 sats' }).waitFor();
  expect(await qrCode.count()).toBe(0);

  await enter('2,100', 'Table 4 & 5\nAlice');
  const { pageUrl, lnurlPayUrl } = await readAddressQrCode(qrCode);
  const [link = ''] = pageUrl.split('&lightning=');
  expect(lnurlPayUrl).toBe(`${environment.origin}/.well-known/lnurlp/${wallet.npub}`);
  await content.getByText(link, { exact: true }).waitFor();
  await inspectPage(page, 'account-request');
  await content.getByRole('button', { name: 'Share link' }).click();
  expect(await shared.promise).toMatchObject({ url: link });
  await page.goto(pageUrl);
  expect(await page.getByLabel('Amount in sats').inputValue()).toBe('2100');
  expect(await page.getByLabel('Comment').inputValue()).toBe('Table 4 & 5\nAlice');
});

it('stops to update if the signer refuses, and continues when the user wants that', async () => {
  const wallet = environment.newWallet();
  let isRefused = false;
  const approve = () =>
    isRefused ? Promise.reject(new Error('User rejected')) : Promise.resolve();
  const page = await browser.openPage(`${environment.origin}/account`, {
    expectedStatuses: [401],
    prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey, approve),
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  const content = section(page, 'Received payments');
  await content.getByText('Live', { exact: true }).waitFor();

  isRefused = true;
  await page.route('**/api/v2/wallet/**', (route) =>
    route.fulfill({ status: 401, json: { code: 'unauthorized', message: 'Expired.' } }),
  );
  await content.getByText('This list no longer updates by itself.').waitFor();
  await content.getByText('Paused', { exact: true }).waitFor();

  isRefused = false;
  await page.unroute('**/api/v2/wallet/**');
  await receivePayment(environment, wallet, 'amount=21000');
  await content.getByRole('button', { name: 'Try again' }).click();
  await content.getByRole('listitem').getByText('21 sats').waitFor();
});

async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));`);
}
