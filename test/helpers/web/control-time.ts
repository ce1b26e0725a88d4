import type { Page } from 'playwright-core';

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
