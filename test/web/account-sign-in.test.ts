import { expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { section } from '../helpers/web/account-page.ts';
import { controlTime } from '../helpers/web/control-time.ts';
import { addNostrExtension } from '../helpers/web/nostr-extension.ts';
import { heading } from '../helpers/web/payment-pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Signing in on the account page. */

const environment = useTestEnvironment();
const browser = useBrowser();

const EXTENSION_BUTTON = 'Sign in with a browser extension';

function openSignIn(approve: () => Promise<void>) {
  const { secretKey } = environment.newWallet();
  return browser.openPage(`${environment.origin}/account`, {
    prepare: async (page) => {
      await controlTime(page);
      await addNostrExtension(page, secretKey, approve);
    },
  });
}

it('signs in with a browser extension, and forgets the session when the page is reloaded', async () => {
  const page = await openSignIn(async () => undefined);
  await page.getByRole('button', { name: EXTENSION_BUTTON }).click();
  await heading(page, 'Received payments').waitFor();
  expect(await heading(page, 'Sign in').count()).toBe(0);

  // `useBrowser` checks that no cookie and no storage has the token.
  await page.reload();
  await heading(page, 'Sign in').waitFor();
});

it('signs out', async () => {
  const page = await openSignIn(async () => undefined);
  await page.getByRole('button', { name: EXTENSION_BUTTON }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await heading(page, 'Sign in').waitFor();
  expect(await heading(page, 'Received payments').count()).toBe(0);
});

it('shows that the user refused to sign, and lets the user try again', async () => {
  let isRefused = true;
  const page = await openSignIn(async () => {
    if (isRefused) {
      throw new Error('User rejected');
    }
  });
  const button = page.getByRole('button', { name: EXTENSION_BUTTON });
  await button.click();
  await section(page, 'Sign in').getByRole('alert').waitFor();
  isRefused = false;
  await button.click();
  await heading(page, 'Received payments').waitFor();
});

it('waits for a user who takes time to approve the signature', async () => {
  const approval = Promise.withResolvers<void>();
  let requestCount = 0;
  const page = await openSignIn(() => {
    requestCount += 1;
    return approval.promise;
  });
  await page.getByRole('button', { name: EXTENSION_BUTTON }).click();
  // The page does not ask twice at the same time.
  await page.getByRole('dialog', { name: 'Waiting for your extension.' }).waitFor();
  await expect.poll(() => requestCount).toBe(1);
  await page.clock.fastForward('01:00');
  approval.resolve();
  await heading(page, 'Received payments').waitFor();
});

it('lets the user cancel', async () => {
  const page = await openSignIn(() => new Promise(() => undefined));
  await page.getByRole('button', { name: EXTENSION_BUTTON }).click();
  await page.getByText('Waiting for your extension.').waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('alert').filter({ hasText: 'Signing in was cancelled.' }).waitFor();
  expect(await page.getByRole('button', { name: EXTENSION_BUTTON }).isVisible()).toBe(true);
});

it('says that there is no extension', async () => {
  const page = await browser.openPage(`${environment.origin}/account`);
  await page.getByRole('button', { name: EXTENSION_BUTTON }).click();
  await page.getByRole('alert').filter({ hasText: 'has no Nostr extension' }).waitFor();
});
