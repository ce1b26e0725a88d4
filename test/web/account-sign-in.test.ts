import type { Locator, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { hostileTexts } from '../helpers/web/hostile-texts.ts';
import {
  addNostrExtension,
  controlTime,
  heading,
  openAccount,
  section,
} from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Signing in with a browser extension, which may be broken or hostile. */

const environment = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '16' } });
const browser = useBrowser();

/** @param approve returns after the user has approved a signature, or rejects */
async function openSignIn(
  approve: () => Promise<void>,
  prepare: (page: Page) => Promise<unknown> = async () => undefined,
) {
  const { secretKey, pubkey } = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/account`, {
    expectedStatuses: [401],
    prepare: async (newPage) => {
      await addNostrExtension(newPage, secretKey, approve);
      await prepare(newPage);
    },
  });
  const button = page.getByRole('button', { name: 'Sign in with a browser extension' });
  const cancel = () => page.getByRole('button', { name: 'Cancel' }).click();
  const waitForAlert = (hasText: string) =>
    section(page, 'Sign in').getByRole('alert').filter({ hasText }).waitFor();
  return { page, pubkey, button, cancel, waitForAlert };
}

function hasFocus(locator: Locator): Promise<boolean> {
  return locator.evaluate((element) => element === document.activeElement);
}

it('says that it is loading, and later that its script did not start', async () => {
  const page = await browser.openPage(`${environment.origin}/account`, {
    expectedStatuses: [404],
    prepare: (newPage) => newPage.route('**/account.js', (route) => route.fulfill({ status: 404 })),
  });
  await page.getByText('Loading…').waitFor();
  const explanation = page.getByText('This page has not started.');
  expect(await explanation.isVisible()).toBe(false);
  await page.evaluate('document.getAnimations().forEach((animation) => animation.finish())');
  await explanation.waitFor();
});

const PAINT = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))';

it('does not move when its script starts late, signed out or in', async () => {
  const { page, pubkey, button } = await openSignIn(
    async () => undefined,
    async (newPage) => {
      await newPage.setViewportSize({ width: 360, height: 740 });
      await newPage.addInitScript(`
        globalThis.__layoutShift = 0;
        new PerformanceObserver((list) => {
          for (const { value } of list.getEntries()) globalThis.__layoutShift += value;
        }).observe({ type: 'layout-shift', buffered: true });`);
      await newPage.route('**/account.js', async (route) => {
        await newPage.getByText('Loading…').waitFor();
        await newPage.evaluate(PAINT);
        await route.continue();
      });
    },
  );
  const readLayoutShift = async () => {
    await page.evaluate(PAINT);
    return page.evaluate<number>('__layoutShift');
  };
  await heading(page, 'Sign in').waitFor();
  expect(await readLayoutShift()).toBeLessThan(0.1);
  await button.click();
  await heading(page, 'Received payments').waitFor();
  await storeToken(page, pubkey);
  await page.reload();
  await section(page, 'Received payments').getByText('Live').waitFor();
  await section(page, 'Your addresses').getByRole('img').waitFor();
  await section(page, 'In this browser').waitFor();
  expect(await readLayoutShift()).toBeLessThan(0.1);
});

/** Stores a token as the page for collecting does. */
async function storeToken(page: Page, pubkey: string): Promise<void> {
  const token = { id: 'token', pubkey, mintUrl: environment.mint.url, createdAtMs: 1 };
  await page.evaluate(`
    new Promise((resolve, reject) => {
      const opening = indexedDB.open('wallet', 1);
      opening.onsuccess = () => {
        const transaction = opening.result.transaction('holdings', 'readwrite');
        transaction.objectStore('holdings').put({
          ...${JSON.stringify(token)}, amountSat: 21, proofs: [], isToken: true,
        });
        transaction.oncomplete = resolve;
        transaction.onerror = reject;
      };
    })`);
}

it('signs in and out', async () => {
  const { page, button } = await openSignIn(async () => undefined);
  await button.click();
  await expect.poll(() => hasFocus(heading(page, 'Your account'))).toBe(true);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await heading(page, 'Sign in').waitFor();
  await expect.poll(() => hasFocus(heading(page, 'Your account'))).toBe(true);
  expect(await heading(page, 'Received payments').count()).toBe(0);
  await button.click();
  await heading(page, 'Received payments').waitFor();
  expect(await heading(page, 'Sign in').count()).toBe(0);
});

it('keeps the session in all tabs until the user signs out', async () => {
  let signatureCount = 0;
  const { page, button } = await openSignIn(async () => {
    signatureCount += 1;
  });
  const account = heading(page, 'Received payments');
  await button.click();
  await account.waitFor();
  await page.reload();
  await account.waitFor();
  const link = page.getByRole('navigation').getByRole('link', { name: 'Your account' });
  expect(await link.getAttribute('aria-current')).toBe('page');
  await page.getByRole('link', { name: 'nutpost' }).click();
  expect(await link.getAttribute('aria-current')).toBeNull();
  await link.click();
  await account.waitFor();

  // A busy tab responds late.
  await page.evaluate(`{
    const { postMessage } = BroadcastChannel.prototype;
    BroadcastChannel.prototype.postMessage = function (message) {
      setTimeout(() => postMessage.call(this, message), message?.type === 'session' ? 1_000 : 0);
    };
  }`);
  const secondTab = await page.context().newPage();
  await secondTab.goto(page.url());
  await heading(secondTab, 'Received payments').waitFor();
  expect(signatureCount).toBe(1);

  await page.getByRole('button', { name: 'Sign out' }).click();
  await heading(secondTab, 'Sign in').waitFor();
  expect(await page.evaluate('sessionStorage.length')).toBe(0);
  await secondTab.reload();
  await heading(secondTab, 'Sign in').waitFor();
  await page.goBack();
  await page.goBack();
  await heading(page, 'Sign in').waitFor();
});

it('asks to sign in again when a session that was kept has expired', async () => {
  const { page, button } = await openSignIn(async () => undefined);
  await button.click();
  await heading(page, 'Received payments').waitFor();
  await page.evaluate(`sessionStorage.session = '{"token":"expired","pubkey":""}'`);
  await page.reload();
  await heading(page, 'Sign in').waitFor();
});

it('waits for a user who takes time, cancels or refuses', async () => {
  let approval = Promise.withResolvers<void>();
  let requestCount = 0;
  const approve = () => {
    requestCount += 1;
    return approval.promise;
  };
  const { page, button, cancel, waitForAlert } = await openSignIn(approve, controlTime);
  await button.click();
  await page.getByRole('dialog', { name: 'Waiting for your extension.' }).waitFor();
  await cancel();
  await waitForAlert('Signing in was cancelled.');
  await expect.poll(() => hasFocus(button)).toBe(true);

  await button.click();
  await expect.poll(() => requestCount).toBe(2);
  approval.reject(new Error('User rejected'));
  await waitForAlert('User rejected');

  approval = Promise.withResolvers();
  await button.click();
  // The page does not ask twice at the same time.
  await expect.poll(() => requestCount).toBe(3);
  await page.clock.fastForward('01:00');
  approval.resolve();
  await heading(page, 'Received payments').waitFor();
});

it('does not sign in a user who cancels while the server responds', async () => {
  const release = Promise.withResolvers<void>();
  const { page, button, cancel, waitForAlert } = await openSignIn(
    async () => undefined,
    (newPage) =>
      newPage.route('**/api/v2/user/info', async (route) => {
        await release.promise;
        await route.continue();
      }),
  );
  const request = page.waitForRequest('**/api/v2/user/info');
  await button.click();
  await request;
  await cancel();
  release.resolve();
  await waitForAlert('Signing in was cancelled.');
  expect(await page.getByRole('button', { name: 'Sign out' }).count()).toBe(0);
});

const [HOSTILE_TEXT = ''] = hostileTexts('extension');
const ERROR = JSON.stringify(HOSTILE_TEXT);

it.each([
  ['is missing', 'null', 'This browser has no Nostr extension'],
  ['rejects', `{ signEvent: () => Promise.reject({ message: ${ERROR} }) }`, HOSTILE_TEXT],
  ['returns nothing', '{ signEvent: async () => null }', 'it returned no signature'],
  [
    'forges a signature',
    `{ signEvent: async (event) => ({
        ...event, id: 'b'.repeat(64), pubkey: 'c'.repeat(64), sig: 'a'.repeat(128) }) }`,
    'signature of the authorization event is invalid',
  ],
])('explains why an extension that %s cannot sign in', async (_name, extension, problem) => {
  const page = await browser.openPage(`${environment.origin}/account`, {
    expectedStatuses: [401],
    prepare: (newPage) => newPage.addInitScript(`globalThis.nostr = ${extension}`),
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  await page.getByRole('alert').filter({ hasText: problem }).waitFor();
});

it.each(['Sign in with a browser extension', 'Connect'])(
  'shows below the button "%s" why signing in failed, on a small phone',
  async (name) => {
    const page = await browser.openPage(`${environment.origin}/account`, {
      viewport: { width: 360, height: 640 },
      hasTouch: true,
      isMobile: true,
    });
    const button = page.getByRole('button', { name });
    await button.click();
    const alert = page.getByRole('alert');
    await alert.waitFor();
    const [buttonBox, alertBox] = [await button.boundingBox(), await alert.boundingBox()];
    const { y, height } = alertBox ?? { y: -1, height: 0 };
    expect(y).toBeGreaterThan(buttonBox?.y ?? 0);
    expect(y - (buttonBox?.y ?? 0)).toBeLessThan(120);
    expect(y + height).toBeLessThanOrEqual(640);
  },
);

it('explains that the browser is offline, or that its clock is wrong', async () => {
  const wallet = environment.newWallet();
  const page = await browser.openPage(`${environment.origin}/account`, {
    expectedStatuses: [0, 401],
    prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey),
  });
  const signIn = () =>
    page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  const waitForAlert = (hasText: string) => page.getByRole('alert').filter({ hasText }).waitFor();
  await page.context().setOffline(true);
  await signIn();
  await waitForAlert('The server did not respond. Check your internet connection');
  await page.context().setOffline(false);
  await page.clock.setFixedTime(Date.now() - 5 * 60_000);
  await signIn();
  await waitForAlert('The clock of this device is wrong.');
});

it('explains that the server did not respond if it receives the page of a Wi-Fi network', async () => {
  const response = { contentType: 'text/html', body: '<h1>Log in</h1>' };
  const page = await openAccount(browser, environment.newWallet(), {
    prepare: (newPage) =>
      newPage.route(/\/api\/v2\/(?:info|wallet|user\/mint)/, (route) => route.fulfill(response)),
  });
  for (const title of ['Username', 'Your mint']) {
    const alert = section(page, title).getByRole('alert');
    expect(await alert.textContent()).toContain('The server did not respond.');
  }
});

it('works in a browser whose database never answers', async () => {
  const page = await openAccount(browser, environment.newWallet(), {
    prepare: (newPage) =>
      newPage.addInitScript('IDBFactory.prototype.open = () => new EventTarget()'),
  });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).waitFor();
});
