import { expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { createInvoice, heading } from '../helpers/web/payment-pages.ts';
import { readLnurl, readQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** What the payment page does by itself, without its scripts. */

const environment = useTestEnvironment();
const browser = useBrowser();

it('leads from the address to a paid invoice', async () => {
  const { npub } = environment.newWallet();
  const { host, origin } = new URL(environment.origin);
  const page = await browser.openPage(`${origin}/${npub}`, { javaScriptEnabled: false });
  expect(await page.locator('#address').textContent()).toBe(`${npub}@${host}`);
  expect(await readLnurl(page.getByRole('img', { name: 'QR' }))).toContain(npub);

  const invoice = await createInvoice(page, 21, 'hello');
  expect(await readQrCode(page.getByRole('img', { name: 'QR' }))).toBe(
    `lightning:${invoice.toUpperCase()}`,
  );
  // What needs a script is hidden.
  expect(await page.getByRole('button').count()).toBe(0);
  expect(await page.getByText('Expires').isVisible()).toBe(false);

  environment.mint.pay(invoice);
  // The page reloads by itself.
  await heading(page, 'Paid').waitFor();
});
