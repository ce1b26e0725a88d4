import type { Page, Route } from 'playwright-core';
import { expect, it, onTestFinished } from 'vitest';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { fetchJson, RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  finish,
  prepareStep,
  readSum,
  restart,
  returnTo,
  STEP_ROUTES,
  type Step,
  takeEverything,
  waitForList,
} from '../helpers/web/collect-page.ts';
import { addNostrExtension, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';
import { startNutshellDeployment, waitForUpdate } from './nutshell-deployment.ts';

const browser = useBrowser();

it('collects at Nutshell in the browser, although responses of the mint are lost', async () => {
  const lost = new Set(['/v1/mint/bolt11', '/v1/swap', '/v1/melt/bolt11']);
  const deployment = await startNutshellDeployment({
    nutshellEnv: { FAKEWALLET_DELAY_INCOMING_PAYMENT: '1' },
    // Only the first response of each route.
    shouldDropResponse: (path) => lost.delete(path),
  });
  onTestFinished(() => deployment[Symbol.asyncDispose]());
  const { mintUrl, service } = deployment;
  const wallet = new RecipientClient(service.publicOrigin);
  const socket = await wallet.openSocket();
  await requestJson(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=1000000`);
  await waitForUpdate(socket);
  await socket.close();

  const page = await browser.openPage(`${service.publicOrigin}/collect`, {
    mints: [mintUrl],
    expectedStatuses: [400],
    expectedErrors: /net::ERR_(EMPTY_RESPONSE|CONNECTION_RESET|FAILED)|blocked by CORS policy/,
    prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey),
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  const inBrowser = section(page, 'In this browser');
  const expectEcash = (text: string) =>
    inBrowser.locator('.balance').getByText(text, { exact: true }).waitFor();

  await page.getByRole('button', { name: 'Collect' }).click();
  await expectEcash('1,000 sats');

  // Each exchange costs 1 sat, Nutshell's default fee for up to ten inputs.
  await page.getByLabel('Amount in sats').fill('300');
  await page.getByRole('button', { name: 'Create token' }).click();
  await expectEcash('699 sats');
  await page.getByRole('button', { name: 'Take back' }).click();
  await expectEcash('998 sats');

  // Lightning costs 1 sat. The mint keeps 2 sats until it is paid, and returns the rest.
  const otherMint = await startTestMint();
  const invoice = await createInvoice(otherMint.url, 100);
  await page.getByLabel('Lightning address or invoice').fill(invoice);
  await page.getByRole('button', { name: 'Show the fee' }).click();
  await page.getByRole('button', { name: 'Pay', exact: true }).click();
  await page.getByText('Paid 100 sats. The fee was 2 sats.').waitFor();
  await expectEcash('896 sats');
  expect(lost.size).toBe(0);
});

/** Holds the next request that a page sends to a mint: before the mint receives it, or after it has answered. */
async function holdNext(page: Page, path: string, point: 'before' | 'after') {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const send = async (route: Route) => {
    await route.fetch();
    arrived.resolve();
  };
  const hold = async (route: Route) => {
    if (point === 'after') {
      await send(route);
    }
    reached.resolve();
    await released.promise;
    if (point === 'before') {
      await send(route);
    }
    // The page that has sent it is gone.
    await route.abort().catch(() => undefined);
  };
  await page.route(`**${path}`, hold, { times: 1 });
  const release = async () => {
    released.resolve();
    await arrived.promise;
  };
  return { reached: reached.promise, release };
}

/** What other wallets get of 1,000 sats. Nutshell's default fee is 1 sat for up to ten inputs of each exchange. */
const VALUES: Record<Step, Record<'before' | 'after', number>> = {
  collect: { before: 999, after: 999 },
  token: { before: 997, after: 997 },
  'take back': { before: 998, after: 998 },
  pay: { before: 997, after: 497 },
};

it.each(Object.keys(VALUES) as Step[])(
  'loses nothing at Nutshell if the page is killed before or after the request of “%s”',
  async (step) => {
    const nutshellEnv = { FAKEWALLET_DELAY_INCOMING_PAYMENT: '0' };
    const deployment = await startNutshellDeployment({ nutshellEnv });
    onTestFinished(() => deployment[Symbol.asyncDispose]());
    const { mintUrl, service } = deployment;
    const otherMint = await startTestMint();
    const wallet = new RecipientClient(service.publicOrigin);
    const page = await browser.openPage(`${service.publicOrigin}/collect`, {
      mints: [mintUrl],
      expectedStatuses: [400],
      prepare: (newPage) => addNostrExtension(newPage, wallet.secretKey),
    });
    await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
    await waitForList(page);
    for (const point of ['before', 'after'] as const) {
      await requestJson(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=1000000`);
      const isPaid = async () => {
        await returnTo(page);
        return await section(page, 'Waiting').getByText('1,000 sats', { exact: true }).isVisible();
      };
      await expect.poll(isPaid).toBe(true);
      const beginStep = await prepareStep(page, step, () => createInvoice(otherMint.url, 500));
      const hold = await holdNext(page, STEP_ROUTES[step].replace('POST ', ''), point);
      await beginStep();
      await hold.reached;
      await restart(page);
      await finish(page);
      await hold.release();
      expect(await takeEverything(page), point).toBe(VALUES[step][point]);
      await returnTo(page);
      await expect.poll(() => readSum(page), { message: point }).toBe(0);
    }
  },
);

async function createInvoice(mintUrl: string, amount: number): Promise<string> {
  const body = JSON.stringify({ amount, unit: 'sat' });
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  return (await fetchJson(mintUrl, '/v1/mint/quote/bolt11', init)).body.request;
}
