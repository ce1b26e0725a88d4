import { expect, it } from 'vitest';
import { setMint, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { hostileTexts, startFailingMint } from '../helpers/web/hostile-texts.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { heading } from '../helpers/web/payment-pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Texts from outside never run on the pages for payers. `useBrowser` reports a text that runs. */

const SITE_NAME = `"><img src=x onerror=__xss('site')>`;

const environment = useTestEnvironment({ env: { SITE_NAME } });
const browser = useBrowser();

it('shows the name of the site as text', async () => {
  const page = await browser.openPage(`${environment.origin}/`);
  expect(await page.title()).toContain(SITE_NAME);
  await page.getByRole('link', { name: SITE_NAME }).waitFor();
  await inspectPage(page, 'hostile-home');
});

it('shows nothing of a hostile path', async () => {
  const page = await browser.openPage(`${environment.origin}/`, { expectedStatuses: [400, 404] });
  for (const text of hostileTexts('path')) {
    for (const path of [`/${encodeURIComponent(text)}`, `/?${text}#${text}`]) {
      await page.goto(`${environment.origin}${path}`);
      expect(await page.getByRole('main').textContent()).not.toContain(text);
    }
  }
});

it('repeats what the visitor entered only as the value of a field', async () => {
  const { npub } = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/${npub}`, { expectedStatuses: [400] });
  for (const text of hostileTexts('form')) {
    const amount = page.getByLabel('Amount in sats');
    // As if another site had sent the form.
    await amount.evaluate((field) => field.setAttribute('type', 'text'));
    await amount.evaluate((field) => field.closest('form')?.setAttribute('novalidate', ''));
    await amount.fill(text);
    await page.getByLabel('Comment').fill(text);
    await page.getByRole('button', { name: 'Create invoice' }).click();
    await page.getByRole('alert').waitFor();
    expect(await page.getByLabel('Comment').inputValue()).toBe(text);
  }
  await inspectPage(page, 'hostile-payment');
});

it('shows nothing of the error message of a mint', async () => {
  const wallet = environment.newWallet();
  const [text = ''] = hostileTexts('mint error');
  expect(await setMint(wallet, await startFailingMint(text))).toMatchObject({ status: 200 });
  const url = `${environment.origin}/${wallet.npub}`;
  const page = await browser.openPage(url, { expectedStatuses: [500] });
  await page.getByLabel('Amount in sats').fill('21');
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await heading(page, 'Not available right now').waitFor();
  expect(await page.getByRole('main').textContent()).not.toContain('mint error');
});
