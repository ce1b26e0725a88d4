import { type EventTemplate, finalizeEvent, getPublicKey } from 'nostr-tools';
import type { Page } from 'playwright-core';

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
