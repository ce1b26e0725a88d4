import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { controlTime } from '../helpers/web/control-time.ts';
import { createInvoice, heading } from '../helpers/web/payment-pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** The invoice page asks for the status of the payment, whatever the server or a proxy answers. */

const VERIFY_URLS = '**/lnurl/verify/*';

const environment = useTestEnvironment();
const browser = useBrowser();

/** Opens the payment page with a clock that the test controls. */
function openPaymentPage(): Promise<Page> {
  const { npub } = environment.newWallet();
  return browser.openPage(`${environment.origin}/${npub}`, { prepare: controlTime });
}

it.each([
  ['a date', 'Wed, 21 Oct 2026 07:28:00 GMT'],
  ['more than timers can count', '99999999'],
  ['a negative number', '-1'],
])('does not flood the server if it answers 429 with %s in Retry-After', async (_name, value) => {
  const page = await openPaymentPage();
  await page.addInitScript(`
    globalThis.requestCount = 0;
    globalThis.fetch = async () => {
      requestCount += 1;
      return new Response('{}', { status: 429, headers: { 'retry-after': '${value}' } });
    };`);
  await createInvoice(page, 21);
  await expect.poll(() => page.evaluate('requestCount')).toBeGreaterThan(0);
  await page.clock.pauseAt(Date.now() + 60_000);
  await page.evaluate('requestCount = 0');
  for (let step = 0; step < 20; step += 1) {
    await page.clock.runFor(100);
  }
  expect(await page.evaluate('requestCount')).toBeLessThanOrEqual(3);
});

it('asks again if the connection hangs', async () => {
  const page = await openPaymentPage();
  let isHanging = true;
  await page.route(VERIFY_URLS, (route) => (isHanging ? undefined : route.continue()));
  const hungRequest = page.waitForRequest(VERIFY_URLS);
  const invoice = await createInvoice(page, 21);
  await hungRequest;
  isHanging = false;
  environment.mint.pay(invoice);
  await page.clock.fastForward('00:12');
  await heading(page, 'Paid').waitFor();
});
