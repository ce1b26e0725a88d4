import type { Locator, Page } from 'playwright-core';

/**
 * Enters an amount on a payment page, and waits for the page with the invoice.
 *
 * @returns the BOLT 11 invoice
 */
export async function createInvoice(
  page: Page,
  amountSat: number,
  comment?: string,
): Promise<string> {
  await page.getByLabel('Amount in sats').fill(String(amountSat));
  if (comment !== undefined) {
    await page.getByLabel('Comment').fill(comment);
  }
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await heading(page, 'Waiting for the payment').waitFor();
  return (await page.locator('#request').textContent()) ?? '';
}

/** Finds a heading whose text contains a name. */
export function heading(page: Page, name: string): Locator {
  return page.getByRole('heading', { name });
}
