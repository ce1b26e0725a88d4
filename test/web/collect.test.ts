import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Wallet } from '@cashu/cashu-ts';
import { chromium, type Page } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import type { Hold, HoldPoint } from '../../demo/test-mint/holds.ts';
import { requireChromium } from '../../scripts/chromium.ts';
import { killProcessesWithFolder } from '../../scripts/remaining-processes.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import {
  receivePayment,
  setLockQuotes,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { addNostrExtension, controlTime, openAccount, section } from '../helpers/web/pages.ts';
import { readQrCode } from '../helpers/web/read-qr-code.ts';
import { type OpenPageOptions, useBrowser } from '../helpers/web/use-browser.ts';

/** Collecting in the browser. Whatever happens, the sum of what waits and what the browser keeps stays the same. */

const environment = useTestEnvironment();
const browser = useBrowser();

/** Opens the page. Signs in on the way, unless another tab of the context is signed in. */
async function openCollect(wallet: RecipientClient, options: OpenPageOptions = {}): Promise<Page> {
  const page = await browser.openPage(`${wallet.origin}/collect`, {
    mints: [environment.mint.url],
    ...options,
    prepare: async (newPage) => {
      await addNostrExtension(newPage, wallet.secretKey);
      await options.prepare?.(newPage);
    },
  });
  if (options.context === undefined) {
    await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  }
  await section(page, 'Waiting')
    .getByText(/^[\d,]+ sats?$/)
    .waitFor();
  return page;
}

async function newPaidWallet(...amountsSat: number[]): Promise<RecipientClient> {
  const wallet = environment.newWallet();
  for (const amountSat of amountsSat) {
    await receivePayment(environment, wallet, `amount=${amountSat * 1_000}`);
  }
  return wallet;
}

const clickCollect = (page: Page) => page.getByRole('button', { name: 'Collect' }).click();
const inBrowser = (page: Page) => section(page, 'In this browser');
const tokens = (page: Page) =>
  section(page, 'Tokens that nobody has taken yet').getByRole('listitem');

async function waitForEcash(page: Page, amountSat: number): Promise<void> {
  const text = `${amountSat.toLocaleString('en')} sats`;
  await inBrowser(page).locator('.balance').getByText(text, { exact: true }).waitFor();
}

async function createToken(page: Page, amountSat: number | null): Promise<string> {
  const count = await tokens(page).count();
  await page.getByLabel('Amount in sats').fill(String(amountSat ?? ''));
  await page.getByRole('button', { name: 'Create token' }).click();
  await expect.poll(() => tokens(page).count()).toBe(count + 1);
  return (await tokens(page).first().locator('code').textContent()) ?? '';
}

/** Takes a token into another wallet. @returns its value in sats */
async function takeToken(token: string): Promise<number> {
  const wallet = new Wallet(environment.mint.url, { unit: 'sat' });
  await wallet.loadMint();
  const proofs = await wallet.receive(token);
  return proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
}

/** Finishes what a page has begun, as a person would. */
async function finish(page: Page): Promise<void> {
  await expect
    .poll(
      async () => {
        // The page may be faster than this test.
        const click = (name: string) =>
          page
            .getByRole('button', { name, exact: true })
            .click({ timeout: 2_000 })
            .catch(() => undefined);
        if ((await section(page, 'Waiting').getByText('Nothing is waiting').count()) === 0) {
          await click('Collect');
          return true;
        }
        const isUnfinished = (await page.getByText('In progress').count()) > 0;
        if (isUnfinished && (await page.getByRole('button', { name: 'Try again' }).count()) > 0) {
          await click('Try again');
        }
        return isUnfinished;
      },
      { timeout: 20_000 },
    )
    .toBe(false);
}

/** Takes all ecash out of a page. @returns its value in sats */
async function takeEverything(page: Page): Promise<number> {
  await finish(page);
  const texts = await tokens(page).locator('code').allTextContents();
  if ((await inBrowser(page).locator('.balance').count()) > 0) {
    texts.push(await createToken(page, null));
  }
  const values = await Promise.all(texts.map(takeToken));
  return values.reduce((sum, value) => sum + value, 0);
}

it('collects payments and hands them over as tokens, which it lists until they are taken', async () => {
  const wallet = await newPaidWallet(2_100, 21);
  const account = await openAccount(browser, wallet, { mints: [environment.mint.url] });
  await section(account, 'Waiting to be collected')
    .getByRole('link', { name: 'Collect', exact: true })
    .click();
  const page = account;
  await section(page, 'Waiting').getByText('2,121 sats').waitFor();
  await section(page, 'Waiting').getByText('2 payments').waitFor();
  await inspectPage(page, 'collect-waiting');
  await clickCollect(page);
  await waitForEcash(page, 2_121);
  await section(page, 'Waiting').getByText('0 sats').waitFor();

  const partial = await createToken(page, 100);
  await waitForEcash(page, 2_021);
  const rest = await createToken(page, null);
  await tokens(page).first().getByText('QR code').click();
  const code = tokens(page).first().getByRole('img');
  expect(await readQrCode(code)).toMatch(rest.length > 800 ? /^UR:BYTES\/\d+-\d+\// : /^cashuB/);
  await inspectPage(page, 'collect-tokens');

  expect(await takeToken(partial)).toBe(100);
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await expect.poll(() => tokens(page).count()).toBe(1);
  await tokens(page).getByRole('button', { name: 'Take back' }).click();
  await waitForEcash(page, 2_021);
  await expect(takeToken(rest)).rejects.toThrow(/spent/);
  expect(await takeEverything(page)).toBe(2_021);
});

it('pays a Lightning address and an invoice, and shows the fee before', async () => {
  const wallet = await newPaidWallet(1_000);
  const payee = environment.newWallet();
  const page = await openCollect(wallet, { expectedStatuses: [400] });
  await clickCollect(page);
  await waitForEcash(page, 1_000);
  const pay = async (destination: string, amountSat: number | null) => {
    await page.getByLabel('Amount in sats').fill(String(amountSat ?? ''));
    await page.getByLabel('Lightning address or invoice').fill(destination);
    await page.getByRole('button', { name: 'Show the fee' }).click();
    const confirm = page.getByRole('group', { name: 'Confirm the payment' });
    await confirm.getByText('The fee is at most 3 sats.').waitFor();
    return confirm;
  };
  const address = `${payee.npub}@${new URL(environment.origin).host}`;
  const confirm = await pay(address, 500);
  await confirm.getByText('Pay 500 sats?').waitFor();
  await inspectPage(page, 'collect-payment');
  await confirm.getByRole('button', { name: 'Pay' }).click();
  await page.getByText('Paid 500 sats. The fee was 1 sat.').waitFor();
  await waitForEcash(page, 499);
  await expect.poll(() => payee.listPaidQuotes()).toMatchObject([{ amount: 500, state: 'PAID' }]);

  environment.mint.switches.doPaymentsFail = true;
  const { pr } = await environment.requestInvoice(payee, 100);
  await (await pay(`lightning:${pr.toUpperCase()}`, null))
    .getByRole('button', { name: 'Pay' })
    .click();
  await page.getByText('The payment was not made. ').waitFor();
  await page.getByText('no route The ecash is in this browser again.').waitFor();
  await waitForEcash(page, 499);

  environment.mint.switches.doPaymentsFail = false;
  await (await pay(address, null)).getByRole('button', { name: 'Pay' }).click();
  await page.getByText('Paid 496 sats. The fee was 1 sat.').waitFor();
  await waitForEcash(page, 2);
});

const ROUTES = {
  collect: 'POST /v1/mint/bolt11',
  token: 'POST /v1/swap',
  'take back': 'POST /v1/swap',
  pay: 'POST /v1/melt/bolt11',
} as const;

type Step = keyof typeof ROUTES;

/** Does what comes before a step, and returns what begins the step. */
async function prepareStep(page: Page, step: Step): Promise<() => Promise<unknown>> {
  if (step === 'collect') {
    return () => clickCollect(page);
  }
  await clickCollect(page);
  await inBrowser(page).locator('.balance').waitFor();
  if (step === 'token') {
    await page.getByLabel('Amount in sats').fill('300');
    return () => page.getByRole('button', { name: 'Create token' }).click();
  }
  if (step === 'take back') {
    await createToken(page, null);
    return () => tokens(page).first().getByRole('button', { name: 'Take back' }).click();
  }
  const { pr } = await environment.requestInvoice(environment.newWallet(), 500);
  await page.getByLabel('Lightning address or invoice').fill(pr);
  await page.getByRole('button', { name: 'Show the fee' }).click();
  return () => page.getByRole('button', { name: 'Pay', exact: true }).click();
}

function holdRequest(step: Step, point: HoldPoint): Hold {
  const { mint } = environment;
  const route = ROUTES[step];
  return point === 'during' && route !== 'POST /v1/mint/bolt11'
    ? mint.holdNext(route as 'POST /v1/swap', point)
    : mint.holdNext(route, point as 'before');
}

/** Adds up what waits, what the browser keeps, tokens, and what is not finished. */
function readSum(page: Page): Promise<number> {
  return page.evaluate<number>(`
    [...document.querySelectorAll('.total, .token strong, .unfinished strong')]
      .reduce((sum, { textContent }) => sum + Number(textContent.replace(/\\D/g, '')), 0)`);
}

it.each(Object.keys(ROUTES) as Step[])(
  'loses nothing if the page is killed at any moment of “%s”',
  async (step) => {
    const wallet = environment.newWallet();
    const account = await openAccount(browser, wallet, { mints: [environment.mint.url] });
    const options = { context: account.context(), expectedStatuses: [400] };
    for (const point of ['before', 'during', 'after'] as const) {
      await receivePayment(environment, wallet, 'amount=1000000');
      const page = await openCollect(wallet, options);
      const beginStep = await prepareStep(page, step);
      const hold = holdRequest(step, step === 'collect' && point === 'during' ? 'before' : point);
      onTestFinished(() => hold.release());
      await beginStep();
      await hold.reached;
      await page.close();
      const newPage = await openCollect(wallet, options);
      if (point === 'before') {
        // The page repeats the request. Then the first one arrives.
        await finish(newPage);
        hold.release();
      } else {
        await expect.poll(() => readSum(newPage)).toBe(1_000);
        hold.release();
        await finish(newPage);
      }
      // A payment that the mint has begun is made. It costs 501 sats.
      const isPaid = step === 'pay' && point !== 'before';
      expect(await takeEverything(newPage)).toBe(isPaid ? 499 : 1_000);
      await newPage.close();
    }
  },
);

it('collects each payment once if two tabs collect at the same time', async () => {
  const wallet = await newPaidWallet(100, 200, 400);
  const first = await openCollect(wallet);
  const second = await openCollect(wallet, { context: first.context() });
  const count = () => environment.mint.requestCounts['POST /v1/mint/bolt11'];
  const countBefore = count();
  await Promise.all([first, second].map(clickCollect));
  await Promise.all([first, second].map((page) => waitForEcash(page, 700)));
  expect(count() - countBefore).toBe(3);
  expect(await takeEverything(second)).toBe(700);
  await expect.poll(() => inBrowser(first).locator('.balance').count()).toBe(0);
});

it('drops a payment that another wallet has collected', async () => {
  const wallet = await newPaidWallet(100);
  const page = await openCollect(wallet, { expectedStatuses: [400] });
  const [quote] = await wallet.listPaidQuotes();
  const otherWallet = new Wallet(environment.mint.url, { unit: 'sat' });
  await otherWallet.loadMint();
  await otherWallet.mintProofsBolt11(100, String(quote?.quoteId));
  await clickCollect(page);
  await section(page, 'Waiting').getByText('Nothing is waiting').waitFor();
  expect(await page.getByRole('alert').count()).toBe(0);
  expect(await inBrowser(page).locator('.balance').count()).toBe(0);
});

it('says what is wrong with a mint, and collects later', async () => {
  const { mint } = environment;
  const wallet = await newPaidWallet(100);
  const page = await openCollect(wallet, {
    expectedStatuses: [400, 429, 500],
    expectedErrors: /blocked by CORS policy|net::ERR_(FAILED|ABORTED|EMPTY_RESPONSE)/,
    prepare: controlTime,
  });
  const expectProblem = async (text: string) => {
    await clickCollect(page);
    await section(page, 'Waiting').getByText(text).waitFor();
    await section(page, 'Waiting').getByText('100 sats').first().waitFor();
  };
  mint.failNext('POST /v1/mint/bolt11');
  await expectProblem('failed (status 500). Nothing is lost.');
  mint.rateLimitNext('POST /v1/mint/bolt11');
  await expectProblem('limits requests. Nothing is lost.');
  mint.switches.allowsWebPages = false;
  await expectProblem('does not accept requests of web pages (CORS)');
  mint.switches.allowsWebPages = true;
  // As Nutshell refuses after the expiry.
  mint.failNext('POST /v1/mint/bolt11', 1, 400);
  await expectProblem('refuses to pay out 100 sats. It says: failed to acquire database lock');
  await inspectPage(page, 'collect-refused');

  // The mint acts, but the response comes too late.
  const hold = mint.holdNext('POST /v1/mint/bolt11', 'after');
  const restoring = mint.holdNext('POST /v1/restore', 'before');
  onTestFinished(() => {
    hold.release();
    restoring.release();
  });
  await clickCollect(page);
  await hold.reached;
  await page.clock.fastForward(15_000);
  await restoring.reached;
  await page.clock.fastForward(15_000);
  await section(page, 'Waiting').getByText('does not answer. Nothing is lost.').waitFor();
  hold.release();
  restoring.release();
  expect(await takeEverything(page)).toBe(100);
});

it('says which wallets collect locked payments', async () => {
  const wallet = environment.newWallet();
  await setLockQuotes(wallet, true);
  await receivePayment(environment, wallet, 'amount=21000');
  const page = await openCollect(wallet);
  const waiting = section(page, 'Waiting');
  await waiting.getByText('21 more sats are locked to your Nostr key').waitFor();
  await waiting.getByText('Nothing is waiting at the moment.').waitFor();
});

it('warns before the user leaves or signs out with ecash, and hides it from another key', async () => {
  const wallet = await newPaidWallet(100);
  const page = await openCollect(wallet);
  await clickCollect(page);
  await waitForEcash(page, 100);
  page.removeAllListeners('dialog');
  const dialog = new Promise<string>((resolve) => {
    page.once('dialog', async (shown) => {
      await shown.accept();
      resolve(shown.type());
    });
  });
  await page.getByRole('link', { name: 'Your account' }).click();
  expect(await dialog).toBe('beforeunload');
  await page.getByRole('button', { name: 'Sign out' }).click();
  const warning = page.getByRole('dialog');
  await warning.getByText('Ecash worth 100 sats is only in this browser.').waitFor();
  await warning.getByRole('button', { name: 'Sign out' }).click();

  const otherPage = await openAccount(browser, environment.newWallet(), {
    context: page.context(),
  });
  await otherPage.getByRole('link', { name: 'Collect', exact: true }).click();
  await inBrowser(otherPage).getByText('There is no ecash here now.').waitFor();
});

it('keeps the ecash if the browser is killed while the mint answers', async () => {
  const wallet = await newPaidWallet(1_000);
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-profile-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  const open = async () => {
    const context = await chromium.launchPersistentContext(folder, {
      executablePath: await requireChromium(),
      args: ['--no-sandbox', '--disable-dev-shm-usage'],
      // By this, the test finds the process to kill.
      env: { ...process.env, TEST_PROFILE: folder },
    });
    onTestFinished(() => context.close().catch(() => undefined));
    const page = await context.newPage();
    await addNostrExtension(page, wallet.secretKey);
    await page.goto(`${wallet.origin}/collect`);
    await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
    await section(page, 'Waiting')
      .getByText(/^[\d,]+ sats?$/)
      .waitFor();
    return page;
  };
  const page = await open();
  const hold = environment.mint.holdNext('POST /v1/mint/bolt11', 'after');
  await clickCollect(page);
  await hold.reached;
  const closed = page.context().waitForEvent('close');
  await killProcessesWithFolder(folder);
  await closed;
  hold.release();
  expect(await takeEverything(await open())).toBe(1_000);
});
