import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { heading, section } from '../helpers/web/pages.ts';
import { readQrCode } from '../helpers/web/read-qr-code.ts';
import { RemoteSigner } from '../helpers/web/remote-signer.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Signing in with a remote signer (NIP-46) over a relay. */

const environment = useTestEnvironment();
const browser = useBrowser();

async function openSignIn(prepare: (page: Page) => Promise<unknown> = async () => undefined) {
  const relay = await startFakeRelay();
  const service = await useAdditionalService(environment, { SIGNER_RELAY: relay.url });
  const userKey = generateSecretKey();
  const signer = await RemoteSigner.start(relay.url, userKey);
  const page = await browser.openPage(`${service.publicOrigin}/account`, {
    relays: [relay.url],
    prepare,
  });
  const connect = async (bunkerUrl: string) => {
    await page.getByLabel('Signer address').fill(bunkerUrl);
    await page.getByRole('button', { name: 'Connect', exact: true }).click();
  };
  const waitForAccount = async () => {
    await heading(page, 'Received payments').waitFor();
    const npub = nip19.npubEncode(getPublicKey(userKey));
    await section(page, 'Your addresses').getByText(npub).first().waitFor();
  };
  return { relay, userKey, signer, page, connect, waitForAccount };
}

it('signs in with the address of a signer (bunker://)', async () => {
  const { relay, signer, page, connect, waitForAccount } = await openSignIn();
  await connect(signer.bunkerUrl);
  await waitForAccount();
  expect(signer.calls[0]).toBe('connect');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await heading(page, 'Sign in').waitFor();
  // Only the signer is still connected.
  await expect.poll(() => relay.connections.open).toBe(1);
});

it.each(['Connect', 'Show QR code'])(
  'leaves no connection behind if the user cancels “%s” while it is opened',
  async (name) => {
    const states: string[] = [];
    const opening = Promise.withResolvers<void>();
    const { signer, page } = await openSignIn((newPage) =>
      newPage.routeWebSocket(/.*/, async (socket) => {
        socket.onClose(() => void states.push('closed'));
        states.push('opening');
        await opening.promise;
      }),
    );
    await page.getByLabel('Signer address').fill(signer.bunkerUrl);
    await page.getByRole('button', { name, exact: true }).click();
    await expect.poll(() => states).toEqual(['opening']);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await heading(page, 'Sign in').waitFor();
    opening.resolve();
    await expect.poll(() => states).toEqual(['opening', 'closed']);
  },
);

it('signs in with a signer that scans the page’s QR code (nostrconnect://)', async () => {
  const { signer, page, waitForAccount } = await openSignIn();
  await page.getByRole('button', { name: 'Show QR code' }).click();
  const uri = await readQrCode(page.getByRole('img', { name: 'QR code' }));
  expect(uri).toMatch(/^nostrconnect:\/\//);
  await page.getByText(uri, { exact: true }).waitFor();
  // The page receives this first, and ignores a signer that does not know the secret.
  await signer.acceptConnection(uri.replace(/secret=[^&]+/, 'secret=guessed'));
  await signer.acceptConnection(uri);
  await waitForAccount();
});

it('finds the answer of a signer after the connection to the relay was interrupted', async () => {
  const { relay, userKey, page, waitForAccount } = await openSignIn();
  relay.switches.storesEphemeralEvents = true;
  await page.getByRole('button', { name: 'Show QR code' }).click();
  const uri = await readQrCode(page.getByRole('img', { name: 'QR code' }));
  await relay.waitForEvents(() => relay.connections.open === 2);
  await relay.stop();
  await relay.restart();
  const signer = await RemoteSigner.start(relay.url, userKey);
  await signer.acceptConnection(uri);
  await waitForAccount();
});

it('looks for the answer of a signer when the user returns to the page', async () => {
  const { relay, signer, page, waitForAccount } = await openSignIn();
  relay.switches.storesEphemeralEvents = true;
  relay.switches.queryHandling = 'ignore';
  await page.getByRole('button', { name: 'Show QR code' }).click();
  const uri = await readQrCode(page.getByRole('img', { name: 'QR code' }));
  await signer.acceptConnection(uri);
  relay.switches.queryHandling = 'answer';
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await waitForAccount();
});

it('shows the page on which the signer’s user approves, until the answer arrives', async () => {
  const { signer, page, connect, waitForAccount } = await openSignIn();
  const approval = Promise.withResolvers<void>();
  signer.approval = approval.promise;
  await connect(signer.bunkerUrl);
  await page.getByRole('link', { name: 'Open signer.example' }).waitFor();
  approval.resolve();
  await waitForAccount();
  expect(await page.getByRole('dialog').count()).toBe(0);
});

it('authenticates at a relay that demands this (NIP-42), also after an interruption', async () => {
  const { relay, userKey, signer, page, connect, waitForAccount } = await openSignIn();
  Object.assign(relay.switches, { auth: 'at_first_message', storesEphemeralEvents: true });
  await connect(signer.bunkerUrl);
  await waitForAccount();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Show QR code' }).click();
  const uri = await readQrCode(page.getByRole('img', { name: 'QR code' }));
  await relay.stop();
  await relay.restart();
  const otherSigner = await RemoteSigner.start(relay.url, userKey);
  await otherSigner.acceptConnection(uri);
  await waitForAccount();
});

it('remembers a signer on request, until the user wants it to be forgotten', async () => {
  const { signer, page, connect, waitForAccount } = await openSignIn();
  const remembered = page.getByRole('button', { name: 'Sign in with the remembered signer' });
  await connect(signer.bunkerUrl);
  await waitForAccount();
  await page.getByRole('button', { name: 'Sign out' }).click();
  expect(await remembered.count()).toBe(0);
  await page.getByLabel('Remember this signer in this browser').check();
  await connect(signer.bunkerUrl);
  await waitForAccount();
  await page.getByRole('button', { name: 'Sign out' }).click();
  // Before it signs out, the page looks for ecash in this browser.
  await remembered.waitFor();
  await page.reload();
  signer.calls.splice(0);
  await remembered.click();
  await waitForAccount();
  expect(signer.calls).toEqual(['sign_event']);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await inspectPage(page, 'account-remembered-signer');
  await page.getByRole('button', { name: 'Forget this signer' }).click();
  expect(await remembered.count()).toBe(0);
  expect(await page.evaluate('localStorage.length')).toBe(0);
});

it.each(['en', 'de', 'es', 'fr', 'ja', 'pt'])(
  'says what a Nostr key is, and offers a signer app on a phone without scrolling, in the language %s',
  async (lang) => {
    const page = await browser.openPage(`${environment.origin}/account?lang=${lang}`, {
      viewport: { width: 360, height: 740 },
      hasTouch: true,
      isMobile: true,
    });
    const first = page.locator('main').getByRole('button').first();
    await first.waitFor();
    const texts = await page.locator('#texts').textContent();
    expect(await first.textContent()).toBe(JSON.parse(texts ?? '')['account.signerAppButton']);
    const apps = page.locator('section a');
    expect(await apps.allTextContents()).toEqual(['Alby', 'nos2x', 'Amber', 'Nostash']);
    // The browser's bars take about 100 px.
    const bottom = await first.evaluate((element) => element.getBoundingClientRect().bottom);
    expect(bottom).toBeLessThan(640);
  },
);

it('explains what is wrong, and lets the user try again', async () => {
  const { signer, page, connect, waitForAccount } = await openSignIn();
  const waitForAlert = (hasText: string) => page.getByRole('alert').filter({ hasText }).waitFor();
  await connect('bunker://');
  await waitForAlert('not a complete address');
  await connect(signer.bunkerUrl.replace(/secret=[^&]+/, 'secret=guessed'));
  await waitForAlert('wrong secret');
  signer.refuses = true;
  await connect(signer.bunkerUrl);
  await waitForAlert('the user refused');
  signer.refuses = false;
  await connect(signer.bunkerUrl);
  await waitForAccount();
});
