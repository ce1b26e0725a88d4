import { getTokenMetadata, Wallet } from '@cashu/cashu-ts';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { section } from './pages.ts';

/** What tests do on the page for collecting. */

/** What can be interrupted, and the request that moves money. */
export const STEP_ROUTES = {
  collect: 'POST /v1/mint/bolt11',
  token: 'POST /v1/swap',
  'take back': 'POST /v1/swap',
  pay: 'POST /v1/melt/bolt11',
} as const;

export type Step = keyof typeof STEP_ROUTES;

/**
 * Does what comes before a step, and returns what begins the step.
 *
 * @param createInvoice creates the invoice to pay
 */
export async function prepareStep(
  page: Page,
  step: Step,
  createInvoice: () => Promise<string>,
): Promise<() => Promise<unknown>> {
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
  await page.getByLabel('Lightning address or invoice').fill(await createInvoice());
  await page.getByRole('button', { name: 'Show the fee' }).click();
  return () => page.getByRole('button', { name: 'Pay', exact: true }).click();
}

export async function waitForList(page: Page): Promise<void> {
  await section(page, 'Waiting')
    .getByText(/^[\d,]+ sats?$/)
    .waitFor();
}

export const clickCollect = (page: Page) => page.getByRole('button', { name: 'Collect' }).click();
export const inBrowser = (page: Page) => section(page, 'In this browser');
export const tokens = (page: Page) =>
  section(page, 'Tokens that nobody has taken yet').getByRole('listitem');

export async function createToken(page: Page, amountSat: number | null): Promise<string> {
  const count = await tokens(page).count();
  await page.getByLabel('Amount in sats').fill(String(amountSat ?? ''));
  await page.getByRole('button', { name: 'Create token' }).click();
  await expect.poll(() => tokens(page).count()).toBe(count + 1);
  return (await tokens(page).first().locator('code').textContent()) ?? '';
}

/** Takes a token into another wallet. @returns its value in sats */
export async function takeToken(token: string): Promise<number> {
  const wallet = new Wallet(getTokenMetadata(token).mint, { unit: 'sat' });
  await wallet.loadMint();
  const proofs = await wallet.receive(token);
  return proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
}

/** Finishes what a page has begun, as a person would. */
export async function finish(page: Page): Promise<void> {
  await expect
    .poll(async () => {
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
    })
    .toBe(false);
}

/** Ends what the page is doing, and opens it again. */
export async function restart(page: Page): Promise<void> {
  // The page would set its question again with the next change.
  await page.evaluate(
    `globalThis.onbeforeunload = null;
    Object.defineProperty(globalThis, 'onbeforeunload', { set: () => undefined });`,
  );
  await page.reload();
  await waitForList(page);
}

/** Tells the page that the user has returned to it. */
export async function returnTo(page: Page): Promise<void> {
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
}

/** Takes all ecash out of a page. @returns its value in sats */
export async function takeEverything(page: Page): Promise<number> {
  await finish(page);
  const texts = await tokens(page).locator('code').allTextContents();
  if ((await inBrowser(page).locator('.balance').count()) > 0) {
    texts.push(await createToken(page, null));
  }
  const values = await Promise.all(texts.map(takeToken));
  return values.reduce((sum, value) => sum + value, 0);
}

/** Adds up what waits, what the browser keeps, tokens, and what is not finished. */
export function readSum(page: Page): Promise<number> {
  return page.evaluate<number>(`
    [...document.querySelectorAll('.total, .token strong, .unfinished strong')]
      .reduce((sum, { textContent }) => sum + Number(textContent.replace(/\\D/g, '')), 0)`);
}
