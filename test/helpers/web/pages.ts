import { type EventTemplate, finalizeEvent, getPublicKey } from 'nostr-tools';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { RecipientClient } from '../recipients/recipient-client.ts';
import type { OpenPageOptions, TestBrowser } from './use-browser.ts';

export function heading(page: Page, name: string): Locator {
  return page.getByRole('heading', { name });
}

export function section(page: Page, title: string): Locator {
  return page.getByRole('region', { name: title });
}

/** Enters an amount on a payment page, and waits for the page with the invoice. @returns the BOLT 11 invoice */
export async function createInvoice(page: Page, amountSat: number, comment = ''): Promise<string> {
  await page.getByLabel('Amount in sats').fill(String(amountSat));
  await page.getByLabel('Comment').fill(comment);
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await heading(page, 'Waiting for the payment').waitFor();
  return (await page.locator('#request').textContent()) ?? '';
}

/** Expects the ways to pay an invoice in their order, and the invoice on one line. */
export async function checkInvoiceActions(page: Page): Promise<void> {
  const parts = page.locator('.invoice-actions > :visible:not([role=status])');
  const names = await parts.evaluateAll((elements) => elements.map(({ localName }) => localName));
  expect(names).toEqual(['a', 'button', 'svg', 'code']);
  expect((await parts.last().boundingBox())?.height).toBeLessThan(60);
}

/** Opens the account page, and signs in as a wallet's user with a browser extension. */
export async function openAccount(
  browser: TestBrowser,
  wallet: RecipientClient,
  options: OpenPageOptions = {},
): Promise<Page> {
  const page = await browser.openPage(`${wallet.origin}/account`, {
    ...options,
    prepare: async (newPage) => {
      await addNostrExtension(newPage, wallet.secretKey);
      await options.prepare?.(newPage);
    },
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  await heading(page, 'Received payments').waitFor();
  return page;
}

/**
 * Adds a browser extension that signs events (NIP-07) to a page that is not yet loaded.
 *
 * @param approve asks the user, who may take time or refuse: then it rejects
 */
export async function addNostrExtension(
  page: Page,
  secretKey: Uint8Array,
  approve: () => Promise<void> = async () => undefined,
): Promise<void> {
  await page.exposeFunction('__signEvent', async (template: EventTemplate) => {
    await approve();
    return finalizeEvent(template, secretKey);
  });
  await page.addInitScript(`
    globalThis.nostr = {
      getPublicKey: async () => '${getPublicKey(secretKey)}',
      signEvent: (template) => globalThis.__signEvent(template),
    };`);
}

/** Lets a test control the clock of a page that is not yet loaded, and with it the timeouts of requests. */
export async function controlTime(page: Page): Promise<void> {
  await page.clock.install();
  await page.addInitScript(`
    AbortSignal.timeout = (ms) => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(new DOMException('', 'TimeoutError')), ms);
      return controller.signal;
    };`);
}
