import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { finalizeEvent } from 'nostr-tools';
import type { Locator, Page } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  assignNewTestMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { inspectPage, saveScreenshot } from '../helpers/web/inspect-page.ts';
import { checkInvoiceActions, controlTime, createInvoice, heading } from '../helpers/web/pages.ts';
import { readAddressQrCode, readQrCode } from '../helpers/web/read-qr-code.ts';
import { type OpenPageOptions, useBrowser } from '../helpers/web/use-browser.ts';

/** The payment page and the invoice page. */

/** Counts the requests of scripts. A response is complete before the page's script receives it. A request may also time out. */
const COUNT_FETCHES = `
  globalThis.fetches = { started: 0, pending: 0, received: 0 };
  const originalFetch = globalThis.fetch;
  globalThis.fetch = async (...args) => {
    fetches.started += 1;
    fetches.pending += 1;
    try {
      const response = await originalFetch(...args);
      const text = await response.text();
      fetches.received += 1;
      return new Response(text, response);
    } finally {
      fetches.pending -= 1;
    }
  };`;

const environment = useTestEnvironment();
const browser = useBrowser();

function openPaymentPage(wallet: RecipientClient, options?: OpenPageOptions): Promise<Page> {
  return browser.openPage(`${environment.origin}/${wallet.npub}`, options);
}

async function countFetches(page: Page): Promise<void> {
  await page.clock.install();
  await page.addInitScript(COUNT_FETCHES);
}

it('shows an invoice, and that it is paid', async () => {
  const wallet = environment.newWallet();
  const page = await openPaymentPage(wallet);
  const invoice = await createInvoice(page, 2100, 'for the coffee ☕');
  expect(decodeInvoice(invoice)?.amountMsat).toBe(2_100_000);
  const uri = `lightning:${invoice.toUpperCase()}`;
  expect(await readQrCode(page.getByRole('img', { name: 'invoice' }))).toBe(uri);
  const link = page.getByRole('link', { name: 'Open in wallet' });
  expect(await link.getAttribute('href')).toBe(uri);
  await page.getByText(/Expires in (60 minutes, 0|59 minutes, \d+) seconds?\./).waitFor();
  const comment = page.locator('.comment:visible');
  expect(await comment.textContent()).toBe('for the coffee ☕');
  expect(await page.getByRole('button', { name: 'browser’s wallet' }).count()).toBe(0);

  environment.mint.pay(invoice);
  await heading(page, 'Paid').waitFor();
  expect(await page.getByRole('status').textContent()).toBe('The payment has arrived.');
  expect(await heading(page, 'Waiting').isVisible()).toBe(false);
  expect(await wallet.listPaidQuotes()).toMatchObject([
    { amount: 2100, comment: 'for the coffee ☕' },
  ]);

  const showsPayment = async () => {
    await heading(page, 'Paid').waitFor();
    expect(await page.title()).toMatch(/^Paid · /);
    expect(await comment.textContent()).toBe('for the coffee ☕');
    await page.getByText(`${new Date().getFullYear()}`).waitFor();
  };
  await showsPayment();
  await page.reload();
  await showsPayment();
  await page.getByRole('link', { name: 'Make another payment' }).click();
  await page.getByLabel('Amount in sats').waitFor();
});

it('prints and shares the receipt of a payment, if the browser can', async () => {
  const prepare = (page: Page) =>
    page.addInitScript(`
      globalThis.print = () => (globalThis.hasPrinted = true);
      navigator.share = async (data) => {
        globalThis.shared = data;
        throw new DOMException('The user closed the dialog.', 'AbortError');
      };`);
  const page = await openPaymentPage(environment.newWallet(), { prepare });
  environment.mint.pay(await createInvoice(page, 2100, 'Table 4'));
  await page.getByRole('button', { name: 'Save receipt' }).click();
  expect(await page.evaluate('hasPrinted')).toBe(true);
  await page.getByRole('button', { name: 'Share' }).click();
  expect(await page.evaluate('shared')).toEqual({ title: await page.title(), url: page.url() });

  const other = await browser.openPage(page.url());
  await other.getByRole('button', { name: 'Save receipt' }).waitFor();
  expect(await other.getByRole('button', { name: 'Share' }).isVisible()).toBe(false);
});

it('speaks the language of the browser, also in its scripts', async () => {
  const options = { locale: 'de-AT', expectedStatuses: [400] };
  const page = await openPaymentPage(environment.newWallet(), options);
  await page.getByText('Von 1 Sat bis 1.000.000 Sats').waitFor();
  const amount = page.getByLabel('Betrag in Sats');
  const button = page.getByRole('button', { name: 'Rechnung erstellen' });
  await amount.fill('0');
  await button.click();
  await page.getByText('Der Betrag muss mindestens 1 Sat sein.').waitFor();
  await page.getByText('noch 255').waitFor();
  await amount.fill('2.100');
  await amount.hover();
  await page.mouse.wheel(0, 100);
  await expect.poll(() => page.evaluate('scrollY')).toBeGreaterThan(0);
  expect(await amount.inputValue()).toBe('2.100');
  await button.click();
  await heading(page, '2.100 Sats').waitFor();
  await page.getByText(/^Läuft ab in (60 Minuten, 0|59 Minuten, \d+) Sekunden?\.$/).waitFor();
  environment.mint.pay((await page.locator('#request').textContent()) ?? '');
  await heading(page, 'Bezahlt').waitFor();
  expect(await page.title()).toMatch(/^Bezahlt · Rechnung von /);
});

/** The screen of a phone without the bars of its browser. */
const PHONE = { viewport: { width: 360, height: 640 }, expectedStatuses: [400] };

it('shows what a payer needs first without scrolling on a phone, also after an error', async () => {
  const { npub, secretKey } = environment.newWallet();
  const relay = await startFakeRelay();
  const content = JSON.stringify({ name: 'Alice' });
  relay.storeEvent(finalizeEvent({ kind: 0, created_at: 1, tags: [], content }, secretKey));
  const { publicOrigin } = await useAdditionalService(environment, { ZAP_RELAYS: relay.url });
  const page = await browser.openPage(`${publicOrigin}/${npub}`, PHONE);
  const findProfile = async () => {
    await page.reload();
    return page.getByText('Nostr profile: Alice').count();
  };
  await expect.poll(findProfile).toBe(1);
  const showsWithoutScrolling = async (...locators: Locator[]) => {
    await page.waitForLoadState();
    for (const locator of locators) {
      const box = await locator.boundingBox();
      expect((box?.y ?? Number.POSITIVE_INFINITY) + (box?.height ?? 0)).toBeLessThanOrEqual(640);
    }
    expect(await page.evaluate('scrollY')).toBe(0);
  };
  const amount = page.getByLabel('Amount in sats');
  const button = page.getByRole('button', { name: 'Create invoice' });
  await showsWithoutScrolling(amount, button);

  await amount.fill('1e3');
  await button.click();
  const alert = page.getByRole('alert');
  await alert.getByText('digits only').waitFor();
  expect(await page.title()).toMatch(/^Error: /);
  expect(await amount.evaluate((field) => field === document.activeElement)).toBe(true);
  expect(await amount.inputValue()).toBe('1e3');
  await showsWithoutScrolling(amount, alert, button);

  const invoice = await createInvoice(page, 21);
  const link = page.getByRole('link', { name: 'Open in wallet' });
  const copy = page.getByRole('button', { name: 'Copy invoice' });
  await showsWithoutScrolling(page.getByText(/^Expires in/), link, copy);
  await checkInvoiceActions(page);
  environment.mint.pay(invoice);
  const again = page.getByRole('link', { name: 'Make another payment' });
  await again.waitFor();
  await showsWithoutScrolling(heading(page, 'Paid'), again);
});

it('shows the QR code below the form on touch screens of any width, and beside it on desktops', async () => {
  const { npub } = environment.newWallet();
  for (const [isTouch, width, height] of [
    [true, 360, 640],
    [true, 740, 360],
    [true, 1_024, 768],
    [false, 1_024, 768],
  ] as const) {
    const viewport = { width, height };
    const options = { viewport, isMobile: isTouch, hasTouch: isTouch };
    const page = await browser.openPage(`${environment.origin}/${npub}`, options);
    const button = await page.getByRole('button', { name: 'Create invoice' }).boundingBox();
    const code = await page.getByRole('img').boundingBox();
    expect(code?.y, `${width} px`)[isTouch ? 'toBeGreaterThan' : 'toBeLessThan'](button?.y ?? 0);
  }
});

it('converts the amount while the payer types, and shows the button on a phone', async () => {
  const { npub } = environment.newWallet();
  const rates = createServer((_request, reply) => reply.end('{ "EUR": 62500, "USD": 50000 }'));
  await new Promise<void>((resolve) => rates.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void rates.close());
  const { port } = rates.address() as AddressInfo;
  const { publicOrigin } = await useAdditionalService(environment, {
    FIAT_CURRENCIES: 'EUR,USD',
    FIAT_RATE_URL: `http://127.0.0.1:${port}/`,
  });
  const page = await browser.openPage(`${publicOrigin}/${npub}`, PHONE);
  const findUnit = async () => {
    await page.reload();
    return page.getByLabel('Unit').count();
  };
  await expect.poll(findUnit).toBe(1);
  const amount = page.locator('#amount');
  const unit = page.locator('select');
  for (const [language, worth] of [
    ['de', /^Der Betrag in Sats ist 8\.800, etwa 5,50\s€ oder 4,40\s\$\.$/],
    ['en', 'The amount in sats is 8,800, about €5.50 or $4.40.'],
  ] as const) {
    await page.goto(`${publicOrigin}/${npub}?lang=${language}`);
    await amount.fill('5.50');
    await unit.selectOption('EUR');
    await page.getByText(worth).waitFor();
    const box = await page.locator('#create-invoice').boundingBox();
    expect((box?.y ?? Number.POSITIVE_INFINITY) + (box?.height ?? 0)).toBeLessThanOrEqual(640);
  }
  await amount.fill('5.5 0 5');
  await page.getByText('1,000 sats are about €0.63 or $0.50.').waitFor();
  await amount.fill('5.50');
  await inspectPage(page, 'payment-fiat');
  await page.getByRole('link', { name: '5,000 sats' }).click();
  expect(await unit.inputValue()).toBe('sats');
  await page.getByText('The amount in sats is 5,000, about €3.13 or $2.50.').waitFor();
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await heading(page, '5,000 sats').waitFor();
  await page.getByText('5,000 sats are about €3.13').waitFor();
  await inspectPage(page, 'invoice-fiat');
});

it('keeps the form when the payer goes back, and when the amount changes', async () => {
  const page = await openPaymentPage(environment.newWallet());
  await createInvoice(page, 2100, 'Table 4');
  const expectForm = async () => {
    await expect.poll(() => page.getByLabel('Amount in sats').inputValue()).toBe('2100');
    expect(await page.getByLabel('Comment').inputValue()).toBe('Table 4');
    await page.getByText('248 left').waitFor();
    await page.getByRole('button', { name: 'Create invoice' }).waitFor();
  };
  await page.getByRole('link', { name: 'Change the amount' }).click();
  await expectForm();
  await page.goBack();
  await heading(page, 'Waiting for the payment').waitFor();
  await page.goBack();
  await expectForm();
});

it('says how much of a comment is left, and does not cut a long one', async () => {
  const page = await openPaymentPage(environment.newWallet());
  const comment = page.getByLabel('Comment');
  await page.getByLabel('Amount in sats').fill('21');
  await comment.fill('☕🥐\n'.repeat(85));
  await page.getByText('0 left', { exact: true }).waitFor();
  await comment.pressSequentially('!!');
  await page.getByText('2 too many').waitFor();
  await page.getByRole('button', { name: 'Create invoice' }).click();
  expect(await comment.evaluate((field) => field === document.activeElement)).toBe(true);
  expect((await comment.inputValue()).endsWith('!!')).toBe(true);
  await comment.press('Backspace');
  await comment.press('Backspace');
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await heading(page, 'Waiting for the payment').waitFor();
});

it('shows progress while a mint does not answer, and keeps the form', async () => {
  const wallet = environment.newWallet();
  const mint = await assignNewTestMint(wallet);
  const page = await openPaymentPage(wallet, { expectedStatuses: [500] });
  mint.switches.isUnresponsive = true;
  await page.getByLabel('Amount in sats').fill('21');
  await page.getByLabel('Comment').fill('do not lose me');
  const button = page.getByRole('button', { name: 'Create invoice' });
  const click = (element: HTMLElement) => {
    element.click();
    return [element.textContent, element.ariaBusy];
  };
  expect(await button.evaluate(click)).toEqual(['Creating the invoice…', 'true']);
  await page.getByRole('alert').getByText('creates no invoices at the moment').waitFor();
  expect(await page.getByLabel('Amount in sats').inputValue()).toBe('21');
  expect(await page.getByLabel('Comment').inputValue()).toBe('do not lose me');
  mint.switches.isUnresponsive = false;
  await page.keyboard.press('Enter');
  await heading(page, 'Waiting for the payment').waitFor();
});

it('offers the amounts of the operator, also without JavaScript', async () => {
  const { npub } = environment.newWallet();
  const env = { SITE_AMOUNTS: '1000,5000,2000000' };
  const { publicOrigin } = await useAdditionalService(environment, env);
  for (const javaScriptEnabled of [true, false]) {
    const url = `${publicOrigin}/${npub}?comment=Table+4+%26+5`;
    const page = await browser.openPage(url, { javaScriptEnabled });
    const comment = page.getByLabel('Comment');
    expect(await comment.inputValue()).toBe('Table 4 & 5');
    if (javaScriptEnabled) {
      await comment.fill('Table 6');
    }
    await page.getByRole('link', { name: '5,000 sats' }).click();
    await expect.poll(() => page.getByLabel('Amount in sats').inputValue()).toBe('5000');
    expect(await comment.inputValue()).toBe(javaScriptEnabled ? 'Table 6' : 'Table 4 & 5');
    expect(await page.getByRole('link', { name: /^[\d,]+ sats$/ }).count()).toBe(2);
  }
});

it('copies the address and the invoice', async () => {
  const wallet = environment.newWallet();
  const permissions = ['clipboard-read', 'clipboard-write'];
  const page = await openPaymentPage(wallet, { permissions });
  const readClipboard = () => page.evaluate<string>('navigator.clipboard.readText()');
  await page.getByRole('button', { name: 'Copy address' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await readClipboard()).toBe(`${wallet.npub}@${new URL(environment.origin).host}`);
  const invoice = await createInvoice(page, 21);
  await page.getByRole('button', { name: 'Copy invoice' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  await page.getByRole('status').filter({ hasText: 'Copied' }).waitFor({ state: 'attached' });
  expect(await readClipboard()).toBe(invoice);
});

it('lets the browser’s wallet pay the invoice (WebLN)', async () => {
  let isRefused = true;
  const prepare = async (page: Page) => {
    await page.exposeFunction('__pay', (request: string) => {
      if (isRefused) {
        throw new Error('The user said no.');
      }
      environment.mint.pay(request);
    });
    await page.addInitScript(
      'globalThis.webln = { enable: async () => {}, sendPayment: (request) => __pay(request) }',
    );
  };
  const page = await openPaymentPage(environment.newWallet(), { prepare });
  await createInvoice(page, 21);
  const button = page.getByRole('button', { name: 'Pay with the browser’s wallet' });
  await button.click();
  await page.getByRole('alert').filter({ hasText: 'The user said no.' }).waitFor();
  isRefused = false;
  await button.click();
  await heading(page, 'Paid').waitFor();
});

it('renews an expired invoice with the same amount and comment', async () => {
  const page = await openPaymentPage(environment.newWallet(), { prepare: countFetches });
  const invoice = await createInvoice(page, 2100, 'Table 4\nTea');
  await expect.poll(() => page.evaluate('fetches.received')).toBeGreaterThan(1);
  await page.clock.fastForward('01:30:00');
  await page.getByRole('button', { name: 'Create a new invoice' }).click();
  await expect.poll(() => page.locator('#request').textContent()).not.toBe(invoice);
  await heading(page, '2,100 sats').waitFor();
  expect(await page.locator('.comment:visible').textContent()).toBe('Table 4\nTea');
});

it('counts down until the invoice expires, and shows a late payment', async () => {
  const page = await openPaymentPage(environment.newWallet(), { prepare: countFetches });
  const invoice = await createInvoice(page, 21);
  // The page has compared the clocks after the first response.
  await expect.poll(() => page.evaluate('fetches.received')).toBeGreaterThan(1);
  await page.clock.fastForward('59:30');
  await page.getByText(/Expires in \d+ seconds\./).waitFor();
  await page.clock.fastForward('01:00');
  await heading(page, 'This invoice has expired').waitFor();
  expect(await page.getByRole('img', { name: 'invoice' }).isVisible()).toBe(false);
  environment.mint.pay(invoice);
  // The next request is due after ten seconds.
  const showsPayment = async () => {
    await page.clock.fastForward('00:10');
    return heading(page, 'Paid').isVisible();
  };
  await expect.poll(showsPayment).toBe(true);
});

it('asks for the status rarely while the tab is hidden, or if the server demands it', async () => {
  const page = await openPaymentPage(environment.newWallet(), {
    prepare: countFetches,
    expectedStatuses: [429],
  });
  await createInvoice(page, 21);
  await page.clock.pauseAt(Date.now() + 60_000);
  /** Returns how many requests the page sends in 20 seconds. */
  const countRequests = async () => {
    await page.evaluate('fetches.started = 0');
    for (let second = 0; second < 20; second += 1) {
      await expect.poll(() => page.evaluate('fetches.pending')).toBe(0);
      await page.clock.runFor(1_000);
    }
    return page.evaluate<number>('fetches.started');
  };
  const setHidden = (...values: boolean[]) =>
    page.evaluate(`
      for (const value of ${JSON.stringify(values)}) {
        Object.defineProperty(document, 'hidden', { value, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      }`);
  expect(await countRequests()).toBeGreaterThan(15);
  await setHidden(true);
  expect(await countRequests()).toBeLessThan(6);
  // A user who switches between tabs quickly does not start several series of requests.
  await setHidden(false, true, false, true, false);
  expect(await countRequests()).toBeLessThan(25);
  const tooManyRequests = { status: 429, headers: { 'retry-after': '60' }, json: {} };
  await page.route('**/lnurl/verify/*', (route) => route.fulfill(tooManyRequests));
  expect(await countRequests()).toBeLessThan(3);
});

it('asks again if the connection hangs', async () => {
  const page = await openPaymentPage(environment.newWallet(), { prepare: controlTime });
  let isHanging = true;
  await page.route('**/lnurl/verify/*', (route) => (isHanging ? undefined : route.continue()));
  const hungRequest = page.waitForRequest('**/lnurl/verify/*');
  const invoice = await createInvoice(page, 21);
  await hungRequest;
  isHanging = false;
  environment.mint.pay(invoice);
  await page.clock.fastForward('00:12');
  await heading(page, 'Paid').waitFor();
});

it('has a preview image with a QR code', async () => {
  const { pubkey } = environment.newWallet();
  const name = 'previewed'.repeat(7);
  await assignUsername(environment.database, pubkey, name);
  const page = await browser.openPage(`${environment.origin}/${name}`);
  await page.evaluate(`{
    const image = new Image();
    image.src = document.querySelector('meta[property="og:image"]').content;
    document.body.replaceChildren(image);
  }`);
  const image = page.getByRole('img');
  const size = await image.evaluate(async (img: HTMLImageElement) => {
    await img.decode();
    return [img.naturalWidth, img.naturalHeight];
  });
  await saveScreenshot(page, 'preview-image');
  expect(size).toEqual([1200, 630]);
  const { lnurlPayUrl } = await readAddressQrCode(image);
  expect(lnurlPayUrl).toBe(`${environment.origin}/.well-known/lnurlp/${name}`);
});

it('leads from the address to a paid invoice without JavaScript', async () => {
  const { npub } = environment.newWallet();
  const { host, origin } = new URL(environment.origin);
  const page = await browser.openPage(`${origin}/${npub}`, { javaScriptEnabled: false });
  expect(await page.locator('#address').textContent()).toBe(`${npub}@${host}`);
  const code = await readAddressQrCode(page.getByRole('img', { name: 'QR' }));
  expect(code.lnurlPayUrl).toBe(`${origin}/.well-known/lnurlp/${npub}`);
  const readMain = async (url: string) => {
    const html = await (await page.request.get(url)).text();
    return /<main.*<\/main>/s.exec(html)?.[0];
  };
  const main = await readMain(page.url());
  expect(main).toContain(npub);
  expect(await readMain(code.pageUrl)).toBe(main);

  const invoice = await createInvoice(page, 21, 'hello');
  expect(await readQrCode(page.getByRole('img', { name: 'QR' }))).toBe(
    `lightning:${invoice.toUpperCase()}`,
  );
  // What needs a script is hidden.
  expect(await page.getByRole('button').count()).toBe(0);
  await page.getByText(/Expires in (60 minutes, 0|59 minutes, \d+) seconds?\./).waitFor();

  environment.mint.pay(invoice);
  // The page reloads by itself.
  await heading(page, 'Paid').waitFor();
  expect(await page.getByRole('button').count()).toBe(0);
});
