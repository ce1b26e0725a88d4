import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { normalizeProofAmounts, type ProofLike, serializeProofs, Wallet } from '@cashu/cashu-ts';
import { chromium, type Page } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import type { Hold, HoldPoint } from '../../demo/test-mint/holds.ts';
import { requireChromium } from '../../scripts/chromium.ts';
import { killProcessesWithFolder } from '../../scripts/remaining-processes.ts';
import { FIRST_PAID_AT_MS, insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import {
  receivePayment,
  setLockQuotes,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import {
  clickCollect,
  createToken,
  finish,
  inBrowser,
  prepareStep,
  readSum,
  restart,
  returnTo,
  STEP_ROUTES,
  type Step,
  takeEverything,
  takeToken,
  tokens,
  waitForList,
} from '../helpers/web/collect-page.ts';
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
  await waitForList(page);
  return page;
}

async function newPaidWallet(...amountsSat: number[]): Promise<RecipientClient> {
  const wallet = environment.newWallet();
  for (const amountSat of amountsSat) {
    await receivePayment(environment, wallet, `amount=${amountSat * 1_000}`);
  }
  return wallet;
}

async function waitForEcash(page: Page, amountSat: number): Promise<void> {
  const text = `${amountSat.toLocaleString('en')} sats`;
  await inBrowser(page).locator('.balance').getByText(text, { exact: true }).waitFor();
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
  await returnTo(page);
  await expect.poll(() => tokens(page).count()).toBe(1);
  await tokens(page).getByRole('button', { name: 'Take back' }).click();
  await waitForEcash(page, 2_021);
  await expect(takeToken(rest)).rejects.toThrow(/spent/);
  expect(await takeEverything(page)).toBe(2_021);
});

it('finds a payment that is older than those that the server counts', async () => {
  const wallet = environment.newWallet();
  const collected = Array.from({ length: 2_000 }, (_, index) => ({
    paidAtMs: FIRST_PAID_AT_MS + (index + 1) * 1_000,
    state: 'ISSUED' as const,
  }));
  const waiting = { paidAtMs: FIRST_PAID_AT_MS, amountSat: 2_100 };
  await insertPaidQuotes(environment.database, wallet.pubkey, [waiting, ...collected]);
  const page = await openCollect(wallet);
  await section(page, 'Waiting').getByText('2,100 sats', { exact: true }).waitFor();
});

it('shows a payment that arrived while the page was visible, after a click on its notification', async () => {
  const wallet = environment.newWallet();
  const page = await openCollect(wallet);
  await receivePayment(environment, wallet, 'amount=21000');
  // The page of a second window is visible all the time, and the click gives it the focus.
  await page.evaluate(`window.dispatchEvent(new Event('focus'))`);
  await section(page, 'Waiting').getByText('21 sats', { exact: true }).waitFor();
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
  await confirm.getByText(`Pay 500 sats to ${address}?`).waitFor();
  await inspectPage(page, 'collect-payment');
  await confirm.getByRole('button', { name: 'Pay' }).click();
  await page.getByText('Paid 500 sats. The fee was 1 sat.').waitFor();
  await waitForEcash(page, 499);
  await expect.poll(() => payee.listPaidQuotes()).toMatchObject([{ amount: 500, state: 'PAID' }]);

  environment.mint.switches.doPaymentsFail = true;
  const { pr } = await environment.requestInvoice(payee, 100);
  const refuse = async (destination: string, amount: string, problem: string) => {
    await page.getByLabel('Amount in sats').fill(amount);
    await page.getByLabel('Lightning address or invoice').fill(destination);
    await page.getByRole('button', { name: 'Show the fee' }).click();
    await inBrowser(page).getByRole('alert').getByText(problem).waitFor();
  };
  await refuse('', '', 'Enter a Lightning address or a Lightning invoice.');
  await refuse(payee.npub, '5', 'Enter a Lightning address or a Lightning invoice.');
  await refuse(address, '0', 'The amount must be at least 1 sat.');
  await refuse(address, '9'.repeat(20), 'The amount must be at most 9,007,199,254,740,991 sats.');
  await refuse(pr, '5', 'This invoice is over 100 sats.');
  await (await pay(`lightning:${pr.toUpperCase()}`, null))
    .getByRole('button', { name: 'Pay' })
    .click();
  await page.getByText('The payment was not made. ').waitFor();
  await page.getByText('no route. The ecash stays in this browser').waitFor();
  await waitForEcash(page, 499);

  environment.mint.switches.doPaymentsFail = false;
  const lastOffer = await pay(`lightning:${address}`, null);
  expect(await inBrowser(page).getByRole('alert').count()).toBe(0);
  await lastOffer.getByRole('button', { name: 'Pay' }).click();
  await page.getByText('Paid 496 sats. The fee was 1 sat.').waitFor();
  await waitForEcash(page, 2);
});

function holdRequest(step: Step, point: HoldPoint): Hold {
  const { mint } = environment;
  const route = STEP_ROUTES[step];
  return point === 'during' && route !== 'POST /v1/mint/bolt11'
    ? mint.holdNext(route as 'POST /v1/swap', point)
    : mint.holdNext(route, point as 'before');
}

it.each(Object.keys(STEP_ROUTES) as Step[])(
  'loses nothing if the page is killed at any moment of “%s”',
  async (step) => {
    const { mint } = environment;
    const wallet = environment.newWallet();
    const page = await openCollect(wallet, { expectedStatuses: [400] });
    for (const point of ['before', 'during', 'after'] as const) {
      await receivePayment(environment, wallet, 'amount=1000000');
      await returnTo(page);
      await section(page, 'Waiting').getByText('1,000 sats').waitFor();
      await expect.poll(() => tokens(page).count()).toBe(0);
      const beginStep = await prepareStep(page, step, async () => {
        const { pr } = await environment.requestInvoice(environment.newWallet(), 500);
        return pr;
      });
      const hold = holdRequest(step, step === 'collect' && point === 'during' ? 'before' : point);
      onTestFinished(() => hold.release());
      await beginStep();
      await hold.reached;
      const isRefused = step === 'token' && point === 'before';
      if (!isRefused) {
        mint.rotateKeyset();
      }
      if (isRefused) {
        // The mint refuses the repeated request. Then the first one arrives.
        mint.failNext('POST /v1/swap', 1, 400);
        await restart(page);
        await page.getByText('refused: failed to acquire database lock').waitFor();
        hold.release();
      } else if (point === 'before') {
        // The page repeats the request. Then the first one arrives.
        await restart(page);
        await finish(page);
        hold.release();
      } else {
        await restart(page);
        // The page finds a payment that is made before the response to it arrives.
        const isFound = step === 'pay' && point === 'after';
        await expect.poll(() => readSum(page)).toBe(isFound ? 499 : 1_000);
        hold.release();
      }
      // A payment that the mint has begun is made. It costs 501 sats.
      const isPaid = step === 'pay' && point !== 'before';
      expect(await takeEverything(page)).toBe(isPaid ? 499 : 1_000);
    }
  },
);

it('keeps the focus in the section when the focused button disappears', async () => {
  const wallet = await newPaidWallet(1_000);
  const page = await openCollect(wallet);
  const press = (name: string) => page.getByRole('button', { name, exact: true }).press('Enter');
  const expectFocus = (title: string) =>
    expect
      .poll(() => section(page, title).evaluate((element) => element === document.activeElement))
      .toBe(true);
  await press('Collect');
  await expectFocus('Waiting');

  const { pr } = await environment.requestInvoice(environment.newWallet(), 500);
  const confirm = page.getByRole('group', { name: 'Confirm the payment' });
  await askFee(page, pr);
  await confirm.waitFor();
  await press('Cancel');
  await expectFocus('In this browser');
  await press('Show the fee');
  await confirm.waitFor();
  await press('Pay');
  await expectFocus('In this browser');
  await page.getByText('Paid 500 sats.').waitFor();
  await expectFocus('In this browser');

  await createToken(page, null);
  await press('Take back');
  await expectFocus('In this browser');
  await waitForEcash(page, 499);
  await expectFocus('In this browser');
});

it('collects in two tabs what can be collected here, each payment once', async () => {
  const wallet = await newPaidWallet(50, 100, 200, 400);
  const taken = (await wallet.listPaidQuotes()).find(({ amount }) => amount === 50);
  await setLockQuotes(wallet, true);
  await receivePayment(environment, wallet, 'amount=21000');
  const first = await openCollect(wallet, { expectedStatuses: [400] });
  const waiting = section(first, 'Waiting');
  await waiting.getByText('21 sats are locked to your Nostr key').waitFor();
  await waiting.getByText('750 sats').waitFor();
  const options = { context: first.context(), expectedStatuses: [400] };
  const second = await openCollect(wallet, options);
  // Another wallet has collected one payment.
  const otherWallet = new Wallet(environment.mint.url, { unit: 'sat' });
  await otherWallet.loadMint();
  await otherWallet.mintProofsBolt11(50, String(taken?.quoteId));
  const count = () => environment.mint.requestCounts['POST /v1/mint/bolt11'];
  const countBefore = count();
  await Promise.all([first, second].map(clickCollect));
  await Promise.all([first, second].map((page) => waitForEcash(page, 700)));
  await waiting.getByText('Nothing is waiting').waitFor();
  expect(count() - countBefore).toBe(4);
  expect(await waiting.getByRole('alert').count()).toBe(0);
  expect(await takeEverything(second)).toBe(700);
  await expect.poll(() => inBrowser(first).locator('.balance').count()).toBe(0);

  const third = await openCollect(wallet, {
    ...options,
    prepare: (page) =>
      page.addInitScript(`
        indexedDB.open = () => { throw new DOMException('The disk is full.', 'QuotaExceededError'); };`),
  });
  await third.getByRole('alert').getByText('The disk is full.').waitFor();
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
  await inBrowser(page).getByText('Ecash worth 100 sats is in this browser').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  const warning = page.getByRole('dialog');
  await warning.getByText('Ecash worth 100 sats is in this browser').waitFor();
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
    await waitForList(page);
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

it('finishes the rest while a payment is pending, and knows that a payment was made', async () => {
  const { mint } = environment;
  const wallet = await newPaidWallet(1_000, 1_000);
  const page = await openCollect(wallet, {
    expectedStatuses: [400, 500],
    expectedErrors: /net::ERR_FAILED/,
  });
  // The mint fails for one of two payments.
  mint.failNext('POST /v1/mint/bolt11');
  await clickCollect(page);
  await waitForEcash(page, 1_000);
  await clickCollect(page);
  await waitForEcash(page, 2_000);

  const pay = async () => {
    const { pr } = await environment.requestInvoice(environment.newWallet(), 500);
    await page.getByLabel('Lightning address or invoice').fill(pr);
    await page.getByRole('button', { name: 'Show the fee' }).click();
    await page.getByRole('button', { name: 'Pay', exact: true }).click();
  };
  // The response is lost, and the mint forgets the quote.
  await page.route('**/v1/melt/bolt11', async (route) => {
    await route.fetch();
    await route.abort();
  });
  mint.failNext('GET /v1/melt/quote/bolt11/:id', 1, 400);
  await pay();
  await page.getByText('Paid 500 sats. The fee was 1 sat.').waitFor();
  await waitForEcash(page, 1_499);
  const token = await createToken(page, 100);
  await waitForEcash(page, 1_399);

  const holdPayment = () => mint.holdNext('POST /v1/melt/bolt11', 'during');
  let hold = holdPayment();
  onTestFinished(() => hold.release());
  await page.route('**/v1/melt/bolt11', async (route) => {
    void route.fetch().catch(() => undefined);
    await hold.reached;
    await route.abort();
  });
  await pay();
  await page.getByText('Being paid: ').waitFor();
  await takeToken(token);
  await returnTo(page);
  await expect.poll(() => tokens(page).count()).toBe(0);
  await page.getByText('Being paid: ').waitFor();
  // Nobody pays it again.
  expect(await page.getByLabel('Lightning address or invoice').inputValue()).toBe('');
  hold.release();
  await returnTo(page);
  await page.getByText('Paid 500 sats. The fee was 1 sat.').waitFor();

  mint.switches.doPaymentsFail = true;
  onTestFinished(() => {
    mint.switches.doPaymentsFail = false;
  });
  hold = holdPayment();
  const lookedUp = page.waitForResponse('**/v1/melt/quote/bolt11/*');
  await pay();
  await lookedUp;
  await page.getByText('Being paid: ').waitFor();
  hold.release();
  await returnTo(page);
  await page.getByText('The payment was not made. The ecash stays in this browser').waitFor();
  expect(await takeEverything(page)).toBe(898);
});

it('stays right if keys and fees change, tokens are partly spent, and the user hesitates', async () => {
  const { mint } = environment;
  const wallet = await newPaidWallet(500);
  const page = await openCollect(wallet, { expectedStatuses: [400] });
  await clickCollect(page);
  await waitForEcash(page, 500);
  await page.getByLabel('Amount in sats').fill('501');
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByText('You can pay at most 500 sats from this mint.').waitFor();

  // The answer about a destination that the user has changed meanwhile.
  const invoices = [100, 200].map((amount) =>
    environment.requestInvoice(environment.newWallet(), amount),
  );
  const [first, second] = await Promise.all(invoices);
  const ask = page.getByRole('button', { name: 'Show the fee' });
  await page.getByLabel('Lightning address or invoice').fill(String(first?.pr));
  const hold = mint.holdNext('POST /v1/melt/quote/bolt11', 'before');
  await ask.click();
  await hold.reached;
  await page.getByLabel('Lightning address or invoice').fill(String(second?.pr));
  hold.release();
  await ask.waitFor();
  expect(await page.getByRole('group', { name: 'Confirm the payment' }).count()).toBe(0);

  mint.rotateKeyset({ inputFeePpk: 100 });
  onTestFinished(() => void mint.rotateKeyset({ inputFeePpk: 0 }));
  const token = await createToken(page, 301);
  await waitForEcash(page, 199);
  const otherWallet = new Wallet(mint.url, { unit: 'sat' });
  await otherWallet.loadMint();
  const [smallest, ...others] = otherWallet
    .decodeToken(token)
    .proofs.toSorted((a, b) => a.amount.toNumber() - b.amount.toNumber());
  expect(smallest?.amount.toNumber()).toBe(1);
  await otherWallet.receive(others);
  const takeBack = tokens(page).getByRole('button', { name: 'Take back' });
  await takeBack.click();
  await tokens(page).getByText('1 sat', { exact: true }).waitFor();
  // The fee is 1 sat, too.
  await takeBack.click();
  await inBrowser(page).getByText('This costs up to 1 sat with the fee.').waitFor();
  expect(await page.getByText('In progress').count()).toBe(0);
});

/** Stores ecash in proofs of 1 sat, as if the page had collected it. */
async function storeSmallProofs(
  page: Page,
  wallet: RecipientClient,
  proofs: readonly ProofLike[],
): Promise<void> {
  const holding = {
    id: randomUUID(),
    pubkey: wallet.pubkey,
    mintUrl: environment.mint.url,
    createdAtMs: Date.now(),
    amountSat: proofs.length,
    proofs: serializeProofs(normalizeProofAmounts([...proofs])),
  };
  await page.evaluate(`
    new Promise((resolve) => {
      indexedDB.open('wallet').onsuccess = ({ target: { result: db } }) => {
        const transaction = db.transaction('holdings', 'readwrite');
        transaction.objectStore('holdings').put(${JSON.stringify(holding)});
        transaction.oncomplete = () => {
          db.close();
          new BroadcastChannel('wallet').postMessage(null);
          resolve();
        };
      };
    })`);
}

async function askFee(page: Page, invoice: string): Promise<void> {
  await page.getByLabel('Lightning address or invoice').fill(invoice);
  await page.getByRole('button', { name: 'Show the fee' }).click();
}

/** The test mint then accepts as many inputs as the page sends at once. */
function limitInputs(): void {
  const { switches } = environment.mint;
  switches.maxInputs = 500;
  onTestFinished(() => {
    switches.maxInputs = null;
  });
}

it('pays with more proofs than the mint accepts at once, also after the page was killed', async () => {
  limitInputs();
  const { mint } = environment;
  const wallet = environment.newWallet();
  // The page repeats the exchange.
  const page = await openCollect(wallet, { expectedStatuses: [400] });
  await storeSmallProofs(page, wallet, mint.createProofs(600));
  await waitForEcash(page, 600);
  const { pr } = await environment.requestInvoice(environment.newWallet(), 590);
  const hold = holdRequest('token', 'after');
  onTestFinished(() => hold.release());
  await askFee(page, pr);
  await hold.reached;
  await restart(page);
  hold.release();
  await finish(page);
  await expect.poll(() => readSum(page)).toBe(600);
  await askFee(page, pr);
  await page.getByRole('button', { name: 'Pay', exact: true }).click();
  await page.getByText('Paid 590 sats. The fee was 1 sat.').waitFor();
  expect(await takeEverything(page)).toBe(9);
});

/** Opens the page with many proofs of a mint that charges for its inputs. */
async function openWithInputFee(proofCount: number) {
  limitInputs();
  const { mint } = environment;
  mint.rotateKeyset({ inputFeePpk: 100 });
  onTestFinished(() => void mint.rotateKeyset({ inputFeePpk: 0 }));
  const wallet = environment.newWallet();
  const page = await openCollect(wallet);
  await storeSmallProofs(page, wallet, mint.createProofs(proofCount));
  await waitForEcash(page, proofCount);
  return { wallet, page };
}

it('exchanges many proofs when it collects, so that a payment costs no more than its fee', async () => {
  const { wallet, page } = await openWithInputFee(600);
  await receivePayment(environment, wallet, 'amount=10000');
  await returnTo(page);
  await clickCollect(page);
  // The mint gets 50 sats for the first 500 proofs, and 11 sats for 102.
  await waitForEcash(page, 549);
  const { pr } = await environment.requestInvoice(environment.newWallet(), 500);
  await askFee(page, pr);
  // A reserve of 3 sats, and 1 sat for the proofs.
  await page.getByText('The fee is at most 4 sats.').waitFor();
  await page.getByRole('button', { name: 'Pay', exact: true }).click();
  await page.getByText('Paid 500 sats. The fee was 2 sats.').waitFor();
  await expect.poll(() => readSum(page)).toBe(47);
});

it('pays no more than the fee that it has shown', async () => {
  const { mint } = environment;
  const { wallet, page } = await openWithInputFee(450);
  const payButton = page.getByRole('button', { name: 'Pay', exact: true });
  const { pr } = await environment.requestInvoice(environment.newWallet(), 30);
  await askFee(page, pr);
  await page.getByText('The fee is at most 7 sats.').waitFor();
  await storeSmallProofs(page, wallet, mint.createProofs(150));
  await waitForEcash(page, 600);
  await payButton.click();
  await page.getByText(/Paid 30 sats. The fee was [3-7] sats./).waitFor();

  const { pr: expensive } = await environment.requestInvoice(environment.newWallet(), 450);
  await askFee(page, expensive);
  await payButton.waitFor();
  await createToken(await openCollect(wallet, { context: page.context() }), 400);
  await payButton.click();
  await page.getByText('The ecash in this browser has changed').waitFor();
  await tokens(page).getByText('400 sats').waitFor();
});

it('keeps the ecash if the mint says no more than that a payment has failed, or that it was made before', async () => {
  const wallet = await newPaidWallet(1_000);
  const page = await openCollect(wallet, { expectedStatuses: [400] });
  await clickCollect(page);
  await waitForEcash(page, 1_000);
  const { pr } = await environment.requestInvoice(environment.newWallet(), 200);
  const payButton = page.getByRole('button', { name: 'Pay', exact: true });
  const quotes: object[] = [];
  await page.route('**/v1/melt/quote/bolt11', async (route) => {
    const response = await route.fetch();
    quotes.push((await response.json()) as object);
    // As mints do that have one quote for an invoice.
    await route.fulfill({ json: { ...quotes.at(-1), ...quotes[0] } });
  });
  await page.route('**/v1/melt/bolt11', (route) => route.fulfill({ json: quotes[0] ?? {} }), {
    times: 1,
  });
  await askFee(page, pr);
  await payButton.click();
  await page.getByText(/^The payment was not made. The ecash stays in this browser/).waitFor();
  await waitForEcash(page, 1_000);
  await askFee(page, pr);
  // Two clicks before the page is drawn again.
  await payButton.waitFor();
  await page.evaluate(`for (const _ of 'xx') document.querySelector('fieldset button').click()`);
  await page.getByText('Paid 200 sats. The fee was 1 sat.').waitFor();
  const hold = environment.mint.holdNext('POST /v1/swap', 'after');
  onTestFinished(() => hold.release());
  await askFee(page, pr);
  await payButton.click();
  await hold.reached;
  await restart(page);
  hold.release();
  await page.getByText(/^The payment was not made. /).waitFor();
  expect(await takeEverything(page)).toBe(799);
});

it('keeps many proofs if the mint refuses to exchange them', async () => {
  const { mint } = environment;
  mint.switches.maxInputs = 100;
  onTestFinished(() => {
    mint.switches.maxInputs = null;
  });
  const wallet = environment.newWallet();
  const page = await openCollect(wallet, { expectedStatuses: [422] });
  await storeSmallProofs(page, wallet, mint.createProofs(600));
  await waitForEcash(page, 600);
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByText('failed (status 422)').waitFor();
  await waitForEcash(page, 600);
  mint.switches.maxInputs = null;
  expect(await takeEverything(page)).toBe(600);
});

it('gives tokens few proofs', async () => {
  limitInputs();
  const { mint } = environment;
  const wallet = environment.newWallet();
  const page = await openCollect(wallet);
  await storeSmallProofs(page, wallet, mint.createProofs(600));
  await waitForEcash(page, 600);
  const decoder = new Wallet(mint.url, { unit: 'sat' });
  await decoder.loadMint();
  const countProofs = (token: string) => decoder.decodeToken(token).proofs.length;
  expect(countProofs(await createToken(page, 1))).toBe(1);
  await waitForEcash(page, 599);
  expect(countProofs(await createToken(page, 550))).toBeLessThanOrEqual(30);
  await storeSmallProofs(page, wallet, mint.createProofs(600));
  await waitForEcash(page, 649);
  expect(countProofs(await createToken(page, null))).toBeLessThanOrEqual(30);
  expect(await takeEverything(page)).toBe(1_200);
});

it('works without proofs of a keyset that the mint has deleted, and after the browser closes the database', async () => {
  const { mint } = environment;
  const wallet = await newPaidWallet(100);
  const page = await openCollect(wallet);
  const { origin } = new URL(page.url());
  const devTools = await page.context().newCDPSession(page);
  await devTools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'indexeddb' });
  await clickCollect(page);
  await waitForEcash(page, 100);
  const id = '00ffffffffffffff';
  const deleted = mint.createProofs(5).map((proof) => ({ ...proof, id }));
  await storeSmallProofs(page, wallet, deleted);
  await waitForEcash(page, 105);
  expect(await takeToken(await createToken(page, 60))).toBe(60);
  await returnTo(page);
  await expect.poll(() => tokens(page).count()).toBe(0);
  await waitForEcash(page, 45);
  expect(await takeToken(await createToken(page, null))).toBe(40);
  await waitForEcash(page, 5);
});
