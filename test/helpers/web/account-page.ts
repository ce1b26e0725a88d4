import type { Locator, Page } from 'playwright-core';
import type { RecipientClient } from '../recipients/recipient-client.ts';
import { addNostrExtension } from './nostr-extension.ts';
import { heading } from './payment-pages.ts';
import type { OpenPageOptions, TestBrowser } from './use-browser.ts';

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

/** Finds a section of the account page. */
export function section(page: Page, title: string): Locator {
  return page.getByRole('region', { name: title });
}
