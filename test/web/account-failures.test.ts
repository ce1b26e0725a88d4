import { expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { openAccount, section } from '../helpers/web/account-page.ts';
import { hostileTexts } from '../helpers/web/hostile-texts.ts';
import { addNostrExtension } from '../helpers/web/nostr-extension.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** The account page with a broken or hostile extension, and without the server's responses. */

const environment = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '16' } });
const browser = useBrowser();

const [HOSTILE_TEXT = ''] = hostileTexts('extension');
const ERROR = JSON.stringify(HOSTILE_TEXT);

it.each([
  ['is null', 'null', 'This browser has no Nostr extension'],
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

it.each([
  ['the page of a Wi-Fi network', { contentType: 'text/html', body: '<h1>Log in</h1>' }],
  ['an empty object', { json: {} }],
])('explains that the server did not respond if it receives %s', async (_name, response) => {
  const page = await openAccount(browser, environment.newWallet(), {
    prepare: (newPage) =>
      newPage.route(/\/api\/v2\/(?:info|wallet|user\/mint)/, (route) => route.fulfill(response)),
  });
  for (const title of ['Username', 'Your mint']) {
    const alert = section(page, title).getByRole('alert');
    expect(await alert.textContent()).toContain('The server did not respond.');
  }
});

it('does not sign in a user who cancels while the server responds', async () => {
  const { secretKey } = environment.newWallet();
  const release = Promise.withResolvers<void>();
  const page = await browser.openPage(`${environment.origin}/account`, {
    prepare: async (newPage) => {
      await addNostrExtension(newPage, secretKey);
      await newPage.route('**/api/v2/user/info', async (route) => {
        await release.promise;
        await route.continue();
      });
    },
  });
  const request = page.waitForRequest('**/api/v2/user/info');
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  await request;
  await page.getByRole('button', { name: 'Cancel' }).click();
  release.resolve();
  await page.getByRole('alert').filter({ hasText: 'Signing in was cancelled.' }).waitFor();
  expect(await page.getByRole('button', { name: 'Sign out' }).count()).toBe(0);
});
