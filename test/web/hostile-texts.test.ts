import { finalizeEvent, nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import {
  receivePayment,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { hostileTexts, startFailingMint } from '../helpers/web/hostile-texts.ts';
import { findWidthProblems } from '../helpers/web/inspect-page.ts';
import { createInvoice, openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Texts from outside never run on the pages, and break no layout. `useBrowser` reports a text that runs. */

const SITE_NAME = `"><img src=x onerror=__xss('site')>`;

const environment = useTestEnvironment({ env: { SITE_NAME, ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY } });
const browser = useBrowser();

it('shows the name of the site as text', async () => {
  const page = await browser.openPage(`${environment.origin}/`);
  expect(await page.title()).toContain(SITE_NAME);
  await page.getByRole('link', { name: SITE_NAME }).waitFor();
  expect(await findWidthProblems(page, 'hostile-home')).toEqual([]);
});

it('shows nothing of a hostile path', async () => {
  const page = await browser.openPage(`${environment.origin}/`, { expectedStatuses: [400, 404] });
  const texts = hostileTexts('path');
  const paths = texts.map((text) => encodeURIComponent(text));
  for (const path of [...paths, `?${texts.join('')}#${texts.join('')}`]) {
    await page.goto(`${environment.origin}/${path}`);
    expect(await page.getByRole('main').textContent()).not.toMatch(/path|evil|WWW/);
  }
});

it('repeats what the visitor entered only as the value of a field', async () => {
  const { npub } = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/${npub}`, { expectedStatuses: [400] });
  const amount = page.getByLabel('Amount in sats');
  const comment = page.getByLabel('Comment');
  const texts = hostileTexts('form');
  // As if another site had sent the form.
  await amount.evaluate((field) => field.closest('form')?.setAttribute('novalidate', ''));
  await amount.fill(texts.join(' '));
  await comment.fill(texts.join('\n'));
  await page.getByRole('button', { name: 'Create invoice' }).click();
  // Each of the two fields has a problem.
  await page.getByRole('alert').nth(1).waitFor();
  expect(await comment.inputValue()).toBe(texts.join('\n'));
  expect(await findWidthProblems(page, 'hostile-payment')).toEqual([]);
});

it('shows nothing of the error message of a mint', async () => {
  const wallet = environment.newWallet();
  const [text = ''] = hostileTexts('mint error');
  expect(await setMint(wallet, await startFailingMint(text))).toMatchObject({ status: 200 });
  const url = `${environment.origin}/${wallet.npub}`;
  const page = await browser.openPage(url, { expectedStatuses: [500] });
  await page.getByLabel('Amount in sats').fill('21');
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await page.getByRole('alert').waitFor();
  expect(await page.getByRole('main').textContent()).not.toContain('mint error');
});

it('shows the comment of an invoice as a text', async () => {
  const page = await browser.openPage(`${environment.origin}/${environment.newWallet().npub}`);
  const comment = ['W'.repeat(100), ...hostileTexts('invoice')].join('\n').slice(0, 255);
  await createInvoice(page, 21, comment);
  expect(await page.locator('.comment:visible').textContent()).toBe(comment);
  expect(await findWidthProblems(page, 'hostile-invoice')).toEqual([]);
});

it('shows the names of Nostr profiles as texts in one line', async () => {
  const relay = await startFakeRelay();
  const service = await useAdditionalService(environment, { ZAP_RELAYS: relay.url });
  const page = await browser.openPage(service.publicOrigin);
  for (const text of hostileTexts('profile')) {
    const { npub, secretKey } = environment.newWallet();
    const content = JSON.stringify({ name: text });
    const event = { kind: 0, created_at: 1, tags: [], content };
    relay.storeEvent(finalizeEvent(event, secretKey));
    const line = page.getByText(/^\s*Nostr profile: /);
    const url = `${service.publicOrigin}/${npub}`;
    await expect
      .poll(async () => (await page.request.get(url)).text())
      .toContain('Nostr profile: ');
    await page.goto(url);
    // The service cleans and shortens the texts.
    const word = /\w{4,20}/.exec(text)?.[0] ?? '';
    expect(await line.textContent()).toContain(word);
    expect((await line.boundingBox())?.height).toBeLessThan(40);
    if (text.startsWith('W')) {
      expect(await findWidthProblems(page, 'hostile-profile')).toEqual([]);
    }
  }
});

it('shows the texts of payers as texts', async () => {
  const wallet = environment.newWallet();
  const { pubkey: recipient } = wallet;
  const texts = hostileTexts('comment');
  const receive = (text: string) =>
    receivePayment(environment, wallet, `amount=1000&comment=${encodeURIComponent(text)}`);
  await Promise.all(texts.map(receive));
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
  for (const summary of await payments.locator('summary').all()) {
    await summary.click();
  }
  expect(await findWidthProblems(page, 'hostile-account')).toEqual([]);
});

it('shows the texts of mints as texts', async () => {
  const page = await openAccount(browser, environment.newWallet(), { expectedStatuses: [400] });
  const content = section(page, 'Your mint');
  const chooseMint = async (url: string) => {
    await content.getByLabel('Choose another mint').fill(url);
    await content.getByRole('button', { name: 'Check this mint' }).click();
  };
  for (const text of hostileTexts('mint')) {
    const mint = await startTestMint({ name: text, description: text });
    await chooseMint(mint.url);
    await page.getByRole('dialog').getByText(mint.url, { exact: true }).waitFor();
    // The service cleans and shortens the texts of mints.
    const word = /\w{4,20}/.exec(text)?.[0] ?? '';
    await expect
      .poll(() => page.getByRole('dialog').getByText(word).count())
      .toBeGreaterThanOrEqual(2);
    await page.getByRole('button', { name: 'Use this mint' }).click();
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
    await expect.poll(() => content.getByText(word).count()).toBeGreaterThanOrEqual(2);
    await content.getByText(mint.url, { exact: true }).waitFor();
  }
  const [error = ''] = hostileTexts('mint error');
  await chooseMint(await startFailingMint(error, { hasHostileInfo: true }));
  await content.getByRole('alert').waitFor();
});

it('refuses an nsec in every field', async () => {
  const wallet = environment.newWallet();
  const nsec = nip19.nsecEncode(wallet.secretKey);
  const home = await browser.openPage(environment.origin);
  const signedOut = await browser.openPage(`${environment.origin}/account`);
  const signedIn = await openAccount(browser, wallet);
  for (const page of [home, signedOut, signedIn]) {
    await expect.poll(() => page.getByRole('textbox').count()).toBeGreaterThan(0);
    for (const field of await page.getByRole('textbox').all()) {
      await field.fill(`my key is ${nsec}`);
      await page.getByRole('alertdialog').getByRole('button').click();
      expect((await field.inputValue()).trim()).toBe('my key is');
    }
  }
});
