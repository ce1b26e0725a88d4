import { Wallet } from '@cashu/cashu-ts';
import type { BrowserContext, Page, Route } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { fetchUsernameOwner } from '../helpers/recipients/username-requests.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import {
  checkInvoiceActions,
  controlTime,
  heading,
  openAccount,
  section,
} from '../helpers/web/pages.ts';
import { readQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Buying a username on `/collect`, with Lightning and with ecash. Nothing is lost if the page dies. */

const PRICE_SAT = 21;

const environment = useTestEnvironment({
  mint: { inputFeePpk: 100 },
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT) },
});
const browser = useBrowser();

const OPTIONS = { expectedStatuses: [400, 402, 409], expectedErrors: /net::ERR_FAILED/ };

const buying = (page: Page) => section(page, 'Buy ');
const button = (page: Page, name: string) =>
  buying(page).getByRole('button', { name, exact: true });
const balance = (page: Page) => section(page, 'In this browser').locator('.balance .total');
const tokens = (page: Page) =>
  section(page, 'Tokens that nobody has taken yet').getByRole('listitem');

/** Chooses a name on the account page, which leads to the page for collecting. */
async function openPurchase(
  wallet: RecipientClient,
  name: string,
  expectedStatuses = OPTIONS.expectedStatuses,
  prepare?: (page: Page) => Promise<unknown>,
): Promise<Page> {
  const page = await openAccount(browser, wallet, {
    ...OPTIONS,
    expectedStatuses,
    mints: [environment.mint.url],
    ...(prepare && { prepare }),
  });
  await page.getByRole('textbox', { name: 'Username' }).fill(name);
  await page.getByRole('button', { name: 'Buy this name' }).click();
  await section(page, `Buy ${name}@${new URL(wallet.origin).host}`).waitFor();
  return page;
}

/** Kills a page. Then opens the page for collecting in another tab, which continues the session. */
async function reopen(page: Page, path: string, whileClosed = async () => undefined as unknown) {
  const other = await browser.openPage(`${environment.origin}/account`, {
    ...OPTIONS,
    mints: [environment.mint.url],
    context: page.context(),
  });
  // It has the session now, unless the first page was busy for too long.
  await expect
    .poll(async () => {
      if (await other.getByRole('button', { name: 'Sign in with' }).isVisible()) {
        await other.reload();
      }
      return heading(other, 'Received payments').isVisible();
    })
    .toBe(true);
  await page.close();
  await whileClosed();
  await other.goto(`${environment.origin}${path}`);
  return other;
}

async function readInvoice(page: Page): Promise<string> {
  const invoice = buying(page).locator('code');
  await invoice.waitFor();
  return (await invoice.textContent()) ?? '';
}

/** Resolves with the request that sends the token, which is held. */
async function holdToken(pages: Page | BrowserContext): Promise<{ sent: Promise<Route> }> {
  const { promise: sent, resolve } = Promise.withResolvers<Route>();
  await pages.route('**/api/v2/user/username', (route) =>
    'x-cashu' in route.request().headers() ? resolve(route) : route.continue(),
  );
  return { sent };
}

it('buys a name with Lightning', async () => {
  const wallet = environment.newWallet();
  const page = await openPurchase(wallet, 'alice');
  await buying(page).getByText('The name costs 21 sats.').waitFor();
  expect(await button(page, 'Pay with ecash in this browser').count()).toBe(0);
  await button(page, 'Pay with Lightning').click();
  const invoice = await readInvoice(page);
  expect(await buying(page).evaluate('document.activeElement.tagName')).not.toBe('BODY');
  await buying(page).getByText('The invoice expires on').waitFor();
  expect(await readQrCode(buying(page).getByRole('img'))).toBe(
    `lightning:${invoice.toUpperCase()}`,
  );
  await checkInvoiceActions(page);
  await inspectPage(page, 'collect-username-invoice');
  environment.mint.pay(invoice);
  await buying(page).getByText('alice@').getByText('is yours now').waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'alice')).toBe(wallet.pubkey);
  await expect.poll(() => tokens(page).count()).toBe(0);
});

it('keeps a pasted token that was not used when the name is paid for in another way', async () => {
  const { mint } = environment;
  const page = await openPurchase(environment.newWallet(), 'hugo');
  await button(page, 'Pay with another Cashu wallet').click();
  const payer = await EcashPayer.open(mint);
  const token = await payer.mintToken(PRICE_SAT - 1);
  await buying(page).getByLabel('Token from your wallet').fill(token);
  await button(page, 'Buy').click();
  await buying(page).getByText('The name was not bought').waitFor();
  await button(page, 'Pay with Lightning').click();
  const invoice = buying(page).locator('code').filter({ hasText: /^ln/ });
  mint.pay((await invoice.textContent()) ?? '');
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await buying(page).getByText('is yours now').waitFor();
  expect(await buying(page).locator('code').textContent()).toBe(token);
});

it('shows a purchase that has begun on the account page, and its end in each tab', async () => {
  const wallet = environment.newWallet();
  const first = await openPurchase(wallet, 'dora');
  await button(first, 'Pay with Lightning').click();
  const invoice = await readInvoice(first);
  const second = await browser.openPage(`${environment.origin}/account`, {
    ...OPTIONS,
    mints: [environment.mint.url],
    context: first.context(),
  });
  const here = section(second, 'In this browser');
  await here.getByText('You have begun to buy the username dora.').waitFor();
  await here.getByRole('link', { name: 'Continue' }).click();
  expect(await readInvoice(second)).toBe(invoice);
  environment.mint.pay(invoice);
  for (const page of [first, second]) {
    await buying(page)
      .getByText(/is yours now|your username already/)
      .waitFor();
    expect(await buying(page).getByRole('alert').count()).toBe(0);
  }
  expect(await fetchUsernameOwner(environment.origin, 'dora')).toBe(wallet.pubkey);
  await second.getByRole('link', { name: 'Your account' }).click();
  await heading(second, 'Received payments').waitFor();
  expect(await here.count()).toBe(0);
});

/** Requests an invoice for a name that expires after two seconds. */
async function requestShortInvoice(page: Page): Promise<string> {
  const { switches } = environment.mint;
  const { expirySeconds } = switches;
  switches.expirySeconds = 2;
  try {
    await button(page, 'Pay with Lightning').click();
    return await readInvoice(page);
  } finally {
    switches.expirySeconds = expirySeconds;
  }
}

it('says that the invoice for a name has expired, and buys the name if it was paid late', async () => {
  const wallet = environment.newWallet();
  const page = await openPurchase(wallet, 'erna');
  const invoice = await requestShortInvoice(page);
  await buying(page).getByText('The invoice has expired. Do not pay it any more.').waitFor();
  expect(await buying(page).locator('code').count()).toBe(0);
  // The payment of the first invoice is under way, and the user requests another one.
  await button(page, 'Pay with Lightning').click();
  expect(await readInvoice(page)).not.toBe(invoice);
  environment.mint.pay(invoice);
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await buying(page).getByText('is yours now').waitFor();
});

it('says why the server has not accepted a token', async () => {
  const { mint } = environment;
  const page = await openPurchase(environment.newWallet(), 'frida');
  await button(page, 'Pay with Lightning').click();
  const { sent } = await holdToken(page);
  mint.pay(await readInvoice(page));
  const route = await sent;
  const thief = new Wallet(mint.url, { unit: 'sat' });
  await thief.loadMint();
  await thief.receive(route.request().headers()['x-cashu'] ?? '');
  await route.continue();
  await buying(page)
    .getByText(/The server says: “.*spent.*” The name was not bought\. Take the token back/)
    .waitFor();
});

it.each([
  ['Pay with ecash in this browser', 'mona'],
  ['Pay with Lightning', 'nils'],
])('sends a token only on request if it could not be taken back, after “%s”', async (way, name) => {
  const { mint } = environment;
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=100000');
  const page = await openPurchase(wallet, name);
  await page.getByRole('button', { name: 'Collect' }).click();
  await balance(page).getByText('100 sats').waitFor();
  const { sent } = await holdToken(page);
  await button(page, way).click();
  if (way === 'Pay with Lightning') {
    mint.pay(await readInvoice(page));
  }
  await (await sent).abort();
  await buying(page).getByRole('alert').waitFor();
  const json = { detail: 'no', code: 11_000 };
  await page.route('**/v1/swap', (route) => route.fulfill({ status: 400, json }), { times: 1 });
  const requests: string[] = [];
  await page.unroute('**/api/v2/user/username');
  await page.route('**/api/v2/user/username', async (route) => {
    requests.push(route.request().method());
    await route.continue();
  });
  await tokens(page).getByRole('button', { name: 'Take back' }).click();
  await page.getByRole('alert').getByText('refused: no').waitFor();
  expect(await tokens(page).count()).toBe(1);
  expect(requests).toEqual([]);
  // While it is taken back, another payment is possible.
  const hold = mint.holdNext('POST /v1/swap', 'before');
  onTestFinished(() => hold.release());
  await tokens(page).getByRole('button', { name: 'Take back' }).click();
  await hold.reached;
  await button(page, 'Pay with Lightning').click();
  const invoice = await readInvoice(page);
  hold.release();
  mint.pay(invoice);
  await buying(page).getByText('is yours now').waitFor();
});

it('loses nothing if the page is killed before the ecash, the token or the outcome has arrived', async () => {
  const { mint } = environment;
  const wallet = environment.newWallet();
  const page = await openPurchase(wallet, 'bob');
  await button(page, 'Pay with Lightning').click();
  const invoice = await readInvoice(page);
  const hold = mint.holdNext('POST /v1/mint/bolt11', 'after');
  onTestFinished(() => hold.release());
  const minting = await reopen(page, '/collect', async () => mint.pay(invoice));
  await hold.reached;
  // A busy machine may kill the page so late that it would look again before.
  await minting.route('**/v1/**', () => undefined);
  const context = minting.context();
  const { sent: sentByItself } = await holdToken(context);
  const sending = await reopen(minting, '/collect', async () => hold.release());
  const lost = await sentByItself;
  expect(await tokens(sending).getByText('21 sats').count()).toBe(1);
  await lost.abort();

  const retrying = await reopen(sending, '/collect');
  await context.unrouteAll();
  await button(retrying, 'Buy').waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'bob')).toBeUndefined();
  const { sent } = await holdToken(retrying);
  await button(retrying, 'Buy').click();
  const route = await sent;
  await route.fetch();
  await route.abort();
  await buying(retrying).getByText('The server did not respond.').waitFor();
  await expect.poll(() => tokens(retrying).count()).toBe(0);
  expect(await fetchUsernameOwner(environment.origin, 'bob')).toBe(wallet.pubkey);
  const count = mint.quotes.size;
  await button(retrying, 'Pay with Lightning').click();
  await buying(retrying).getByText('is yours now').waitFor();
  expect(mint.quotes.size).toBe(count);

  await retrying.goto(`${environment.origin}/collect?name=bob`);
  await buying(retrying).getByText('This is your username already.').waitFor();
});

it('buys the name by itself if the page was killed while it collected the payment', async () => {
  const { mint } = environment;
  const page = await openPurchase(environment.newWallet(), 'ida');
  await button(page, 'Pay with Lightning').click();
  const invoice = await readInvoice(page);
  const hold = mint.holdNext('POST /v1/mint/bolt11', 'before');
  onTestFinished(() => hold.release());
  mint.pay(invoice);
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await hold.reached;
  const other = await reopen(page, '/collect');
  await buying(other).getByText('on the way into this browser').waitFor();
  hold.release();
  await buying(other).getByText('ida@').getByText('is yours now').waitFor();
});

it('buys a name with collected ecash, which stays if the name is taken meanwhile', async () => {
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=100000');
  const page = await openPurchase(wallet, 'carol');
  await page.getByRole('button', { name: 'Collect' }).click();
  await balance(page).getByText('100 sats').waitFor();
  const { sent } = await holdToken(page);
  await button(page, 'Pay with ecash in this browser').click();
  const route = await sent;
  await assignUsername(environment.database, environment.newWallet().pubkey, 'carol');
  await route.continue();
  await buying(page).getByText('This name is taken.').waitFor();
  await buying(page).getByRole('link', { name: 'Choose another name' }).waitFor();
  expect(await tokens(page).getByText('21 sats').count()).toBe(1);
  await inspectPage(page, 'collect-username-taken');
  await button(page, 'Buy').click();
  await buying(page).getByText('This name is taken').waitFor();

  // The mint’s fee for the exchange was 1 sat.
  await balance(page).getByText('78 sats').waitFor();
  const second = await reopen(page, '/collect?name=Carla');
  await button(second, 'Buy').click();
  await buying(second).getByText('carla@').getByText('is yours now').waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'carla')).toBe(wallet.pubkey);
  await expect.poll(() => tokens(second).count()).toBe(0);
  await balance(second).getByText('78 sats').waitFor();
});

it('pays once if the user presses a button in two tabs at the same time', async () => {
  const { mint } = environment;
  const wallet = environment.newWallet();
  await receivePayment(environment, wallet, 'amount=100000');
  const first = await openPurchase(wallet, 'gerd');
  const openSecond = async () => {
    const options = { ...OPTIONS, mints: [mint.url], context: first.context() };
    const page = await browser.openPage(first.url(), options);
    await button(page, 'Pay with Lightning').waitFor();
    return page;
  };
  const pressInBoth = async (second: Page, name: string, isHeld: Promise<unknown>) => {
    await button(first, name).click();
    await isHeld;
    await button(second, name).click();
    const countWaiting = () =>
      second.evaluate<number>('navigator.locks.query().then(({ pending }) => pending.length)');
    await expect.poll(countWaiting).toBe(1);
  };
  const second = await openSecond();
  const quoteCount = mint.quotes.size;
  const quoting = mint.holdNext('POST /v1/mint/quote/bolt11', 'before');
  onTestFinished(() => quoting.release());
  await pressInBoth(second, 'Pay with Lightning', quoting.reached);
  quoting.release();
  const invoice = await readInvoice(first);
  await expect.poll(() => readInvoice(second)).toBe(invoice);
  await expect.poll(() => button(second, 'Pay with Lightning').count()).toBe(0);
  expect(mint.quotes.size).toBe(quoteCount + 1);

  await first.getByRole('button', { name: 'Collect' }).click();
  await balance(first).getByText('100 sats').waitFor();
  await button(second, 'Pay with ecash in this browser').waitFor();
  // The first tab asks for the price, and later sends the token, but the server gets no token.
  const { promise: asked, resolve } = Promise.withResolvers<Route>();
  await first.route('**/api/v2/user/username', (route) =>
    'x-cashu' in route.request().headers() ? route.abort() : resolve(route),
  );
  await pressInBoth(second, 'Pay with ecash in this browser', asked);
  await (await asked).continue();
  await buying(second).getByText('is yours now').waitFor();
  await expect.poll(() => tokens(first).count()).toBe(0);
  await balance(first).getByText('78 sats').waitFor();
});

it('lets another tab buy the name if the session of a hidden one has ended', async () => {
  const hidden = await openPurchase(environment.newWallet(), 'hanna', [401, 402]);
  const visible = await browser.openPage(hidden.url(), {
    ...OPTIONS,
    mints: [environment.mint.url],
    context: hidden.context(),
  });
  await button(visible, 'Pay with Lightning').waitFor();
  await hidden.evaluate(`Object.defineProperty(document, 'hidden', { value: true })`);
  const refused = hidden.waitForResponse('**/api/v2/user/username');
  await hidden.route('**/api/v2/user/username', (route) =>
    route.fulfill({ status: 401, json: { code: 'unauthorized', message: 'Expired.' } }),
  );
  await button(hidden, 'Pay with Lightning').click();
  await refused;
  await button(visible, 'Pay with Lightning').click();
  await readInvoice(visible);
  await buying(hidden).getByText('Your session has ended.').waitFor();
});

it('remembers an expired invoice for a day, and buys the name if it was paid late', async () => {
  const wallet = environment.newWallet();
  const page = await openPurchase(wallet, 'frida');
  const invoice = await requestShortInvoice(page);
  await buying(page).getByText('The invoice has expired.').waitFor();
  const begun = (account: Page) =>
    section(account, 'In this browser').getByText('You have begun to buy the username frida.');
  const account = await reopen(page, '/account');
  await begun(account).waitFor();
  const later = await browser.openPage(`${environment.origin}/account`, {
    context: page.context(),
    prepare: (newPage) => newPage.clock.setSystemTime(Date.now() + 25 * 3_600_000),
  });
  await heading(later, 'Received payments').waitFor();
  expect(await begun(later).count()).toBe(0);
  // All tabs have the same clock.
  await later.clock.setSystemTime(Date.now());

  await account.goto(`${environment.origin}/collect`);
  await buying(account).getByText('The invoice has expired.').waitFor();
  environment.mint.pay(invoice);
  await account.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await buying(account).getByText('is yours now').waitFor();
  expect(await fetchUsernameOwner(environment.origin, 'frida')).toBe(wallet.pubkey);
});

it('asks before a late payment replaces a name that the user has bought since', async () => {
  const wallet = environment.newWallet();
  const late = await openPurchase(wallet, 'jonas');
  await button(late, 'Pay with Lightning').click();
  const lateInvoice = await readInvoice(late);
  const other = await browser.openPage(`${environment.origin}/collect?name=jan`, {
    ...OPTIONS,
    mints: [environment.mint.url],
    context: late.context(),
  });
  await button(other, 'Pay with Lightning').click();
  environment.mint.pay(await readInvoice(other));
  await buying(other).getByText('is yours now').waitFor();
  await expect.poll(() => tokens(other).count()).toBe(0);
  await other.close();

  environment.mint.pay(lateInvoice);
  await late.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await buying(late).getByText('It replaces your username jan.').waitFor();
  await button(late, 'Buy').click();
  await buying(late).getByText('jonas@').getByText('is yours now').waitFor();

  // A phone may discard the page while its user, who has agreed to replace the name, pays elsewhere.
  await late.goto(`${environment.origin}/collect?name=julia`);
  await button(late, 'Pay with Lightning').click();
  const invoice = await readInvoice(late);
  await late.reload();
  expect(await readInvoice(late)).toBe(invoice);
  environment.mint.pay(invoice);
  await late.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await buying(late).getByText('julia@').getByText('is yours now').waitFor();
});

it('buys a name in a hidden tab, and looks often again when the user returns', async () => {
  const wallet = environment.newWallet();
  const page = await openPurchase(wallet, 'karl', undefined, controlTime);
  const setHidden = (isHidden: boolean) =>
    page.evaluate(`{
      Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }`);
  /** Returns when the page has asked the mint once more. */
  const expectLook = async (act: () => Promise<unknown>) => {
    const asked = page.waitForResponse('**/v1/mint/quote/bolt11/*');
    await act();
    await asked;
  };
  await button(page, 'Pay with Lightning').click();
  const invoice = await readInvoice(page);
  await setHidden(true);
  for (let look = 0; look < 8; look += 1) {
    await expectLook(() => page.clock.fastForward('02:00'));
  }
  await expectLook(() => setHidden(false));
  await expectLook(() => page.clock.fastForward('00:05'));
  await setHidden(true);
  environment.mint.pay(invoice);
  await page.clock.fastForward('02:00');
  await buying(page).getByText('is yours now').waitFor();
});

it('says in the title that the user gets a name, and if a link has an invalid one', async () => {
  const page = await openPurchase(environment.newWallet(), 'lena');
  await heading(page, 'Get a username').waitFor();
  expect(await page.title()).toBe('Get a username · nutpost');
  await button(page, 'Pay with Lightning').click();
  await readInvoice(page);
  await page.goto(`${environment.origin}/collect?name=a-b`);
  const problem = section(page, 'Username');
  await problem.getByRole('alert').getByText('A username has 3 to 64 letters').waitFor();
  await problem.getByRole('link', { name: 'Choose another name' }).waitFor();
  expect(await buying(page).count()).toBe(0);
  await inspectPage(page, 'collect-username-invalid');
  for (const path of ['/collect', '/collect?name=lena&name=ina']) {
    await page.goto(`${environment.origin}${path}`);
    await readInvoice(page);
    expect(await page.title()).toBe('Collect · nutpost');
    await heading(page, 'Collect').waitFor();
  }
});
