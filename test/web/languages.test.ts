import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import english from '../../src/http/web/texts/en.json' with { type: 'json' };
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { addNostrExtension } from '../helpers/web/pages.ts';
import { type OpenPageOptions, useBrowser } from '../helpers/web/use-browser.ts';

/**
 * Each page and state in each language: no text is missing, all fits small phones, and the main action of a page is
 * visible without scrolling.
 */

const SMALL_PHONE = { width: 320, height: 640 };

/** The screen of a usual phone without the bars of its browser. */
const PHONE = { width: 360, height: 640 };

const LANGUAGES = readdirSync(path.join(import.meta.dirname, '../../src/http/web/texts')).map(
  (file) => path.basename(file, '.json'),
);

/** How the names of texts start, such as `pay` in `pay.title`. */
const GROUPS = new Set(Object.keys(english).map((key) => key.split('.')[0]));

/** Names of texts, and placeholders. The next sentence may follow a word without a space, in another element. */
const UNTRANSLATED = RegExp(`\\b(?:${[...GROUPS].join('|')})\\.[a-z]|[{}]`);

const rates = createServer((_request, reply) => reply.end('{ "EUR": 62500, "USD": 50000 }'));
await new Promise<void>((resolve) => rates.listen(0, '127.0.0.1', resolve));
afterAll(() => void rates.close());

const environment = useTestEnvironment({
  env: {
    USERNAME_PRICE_SAT: '2100',
    SITE_AMOUNTS: '1000,5000,21000,100000',
    FIAT_CURRENCIES: 'EUR,USD',
    FIAT_RATE_URL: `http://127.0.0.1:${(rates.address() as AddressInfo).port}/`,
  },
});
const browser = useBrowser();

function openPhone(pagePath: string, options: OpenPageOptions = {}): Promise<Page> {
  return browser.openPage(`${environment.origin}${pagePath}`, {
    viewport: SMALL_PHONE,
    expectedStatuses: [400, 402, 404],
    mints: [environment.mint.url],
    ...options,
  });
}

/** Loads a page in each language. @param visit inspects it, and may bring it into further states */
async function inLanguages(
  page: Page,
  pagePath: string,
  visit: (inspect: (state: string) => Promise<void>) => Promise<void> = (inspect) =>
    inspect('loaded'),
): Promise<void> {
  for (const language of LANGUAGES) {
    const url = new URL(pagePath, environment.origin);
    url.searchParams.set('lang', language);
    // The page for collecting would ask whether the user wants to leave.
    await page.evaluate('globalThis.onbeforeunload = null');
    await page.goto(url.href);
    await visit((state) => inspectTexts(page, language, `${pagePath}, ${state}, ${language}`));
  }
}

async function inspectTexts(page: Page, language: string, name: string): Promise<void> {
  const [lang, width, texts] = await page.evaluate<[string, number, string[]]>(`[
    document.documentElement.lang,
    document.documentElement.scrollWidth,
    [
      document.title,
      document.body.textContent,
      ...[...document.querySelectorAll('[aria-label]')].map((element) => element.ariaLabel),
    ],
  ]`);
  expect({ lang, width }, name).toEqual({ lang: language, width: SMALL_PHONE.width });
  expect(texts.join('\n'), name).not.toMatch(UNTRANSLATED);
}

/** Expects that a button or link is visible without scrolling. */
async function expectOnScreen(page: Page, selector: string): Promise<void> {
  await page.setViewportSize(PHONE);
  const box = await page.locator(selector).first().boundingBox();
  const bottom = (box?.y ?? Number.POSITIVE_INFINITY) + (box?.height ?? 0);
  expect(bottom, page.url()).toBeLessThanOrEqual(PHONE.height);
  await page.setViewportSize(SMALL_PHONE);
}

it('home, a problem there, a page that does not exist, and a free name', async () => {
  const page = await openPhone('/');
  await inLanguages(page, '/', async (inspect) => {
    await inspect('loaded');
    await expectOnScreen(page, 'form button');
    await page.locator('#recipient').fill('w'.repeat(200));
    await page.locator('form button').click();
    await page.getByRole('alert').waitFor();
    await inspect('with a problem');
    await expectOnScreen(page, 'form button');
  });
  await inLanguages(page, '/no/such/page');
  await inLanguages(page, `/${'w'.repeat(64)}`, async (inspect) => {
    await inspect('loaded');
    await expectOnScreen(page, 'a[href*="/account?name="]');
  });
});

it('payment page, with currencies and with a problem', async () => {
  const { npub } = environment.newWallet();
  const page = await openPhone(`/${npub}`);
  const findUnit = async () => {
    await page.reload();
    return page.locator('select').count();
  };
  await expect.poll(findUnit).toBe(1);
  await inLanguages(page, `/${npub}`, async (inspect) => {
    await inspect('with currencies');
    await expectOnScreen(page, '#create-invoice');
    for (const amount of ['2k', '1555']) {
      await page.locator('#amount').fill(amount);
      await page.locator('select').selectOption('EUR');
      await page.locator('#create-invoice').click();
      await page.getByRole('alert').waitFor();
      await inspect(`with the amount ${amount}`);
      await expectOnScreen(page, '#create-invoice');
    }
  });
});

it('invoice that waits, is paid and has expired', async () => {
  const { pubkey } = environment.newWallet();
  await assignUsername(environment.database, pubkey, 'm'.repeat(64));
  const { switches } = environment.mint;
  const page = await openPhone('/');
  const open = async () => {
    await page.goto(`${environment.origin}/${'m'.repeat(64)}`);
    await page.locator('#amount').fill('21000');
    await page.locator('#comment').fill('W'.repeat(255));
    await page.locator('#create-invoice').click();
    const invoice = (await page.locator('#request').textContent()) ?? '';
    return { invoice, path: new URL(page.url()).pathname };
  };
  const { invoice, path: paidPath } = await open();
  await inLanguages(page, paidPath);
  environment.mint.pay(invoice);
  await page.locator('.paid').waitFor();
  const { expirySeconds } = switches;
  switches.expirySeconds = 2;
  const { path: expiredPath } = await open();
  switches.expirySeconds = expirySeconds;
  await inLanguages(page, paidPath);
  await inLanguages(page, expiredPath, async (inspect) => {
    await page.locator('#renew').waitFor();
    await inspect('expired');
  });
});

it('account: signing in, payments, buying a username, and problems', async () => {
  const wallet = environment.newWallet();
  await insertPaidQuotes(environment.database, wallet.pubkey, 12);
  await receivePayment(environment, wallet, `amount=1000000000&comment=${'W'.repeat(255)}`);
  const page = await openPhone('/account', {
    prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey),
  });
  await inLanguages(page, '/account', async (inspect) => {
    await page.locator('section button').first().waitFor();
    await inspect('signing in');
  });
  await page.locator('section button').first().click();
  await page.locator('#username').waitFor();
  await inLanguages(page, '/account', async (inspect) => {
    await page.locator('.payments details').first().waitFor();
    await page.locator('.mint + .hint').waitFor();
    await page.locator('#username').fill('x'.repeat(64));
    await page.locator('#username-availability[data-state]').waitFor();
    await inspect('with payments');
    await expectOnScreen(page, 'a[href*="/collect"]');
    await page.locator('#mint-url').fill('mint');
    await page.keyboard.press('Enter');
    await page.locator('#mint-url-problem .problem').waitFor();
    await page.evaluate(
      '[...document.querySelectorAll("details")].forEach((details) => { details.open = true; })',
    );
    await inspect('with all details and a problem');
  });
  await assignUsername(environment.database, wallet.pubkey, 'n'.repeat(64));
  await inLanguages(page, '/account', async (inspect) => {
    await page.locator('#username').waitFor();
    await inspect('with a username');
  });
});

it('collecting: ecash, tokens, a payment to confirm, and buying a username', async () => {
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=10000000');
  const { pr } = await environment.requestInvoice(environment.newWallet(), 500);
  const collectPath = `/collect?name=${'k'.repeat(64)}`;
  const page = await openPhone('/account', {
    prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey),
  });
  await page.locator('section button').first().click();
  await page.locator('#username').waitFor();
  const buying = page.locator('section').first();
  await inLanguages(page, collectPath, async (inspect) => {
    await buying.locator('button').first().waitFor();
    await page.locator('section + section button').waitFor();
    await inspect('with a payment');
    await expectOnScreen(page, 'section button');
    await buying.locator('button').nth(1).click();
    await page.locator('#token').press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('#token-problem .problem').waitFor();
    await inspect('with a problem of a token');
  });
  await page.locator('section + section button').click();
  const [amount, destination] = ['amount', 'destination'].map((name) =>
    page.locator(`input[id^="${name}-at-"]`),
  );
  await amount?.fill('100');
  await amount?.press('Enter');
  await page.locator('.token').waitFor();
  await inLanguages(page, collectPath, async (inspect) => {
    await buying.locator('button').nth(1).waitFor();
    await destination?.fill(pr);
    await destination?.press('Enter');
    await page.locator('fieldset').waitFor();
    await inspect('with ecash, a token and a payment to confirm');
  });
  await buying.locator('button').nth(1).click();
  await buying.locator('code').waitFor();
  await inLanguages(page, collectPath, async (inspect) => {
    await buying.locator('code').waitFor();
    await inspect('with an invoice for a username');
  });
});
