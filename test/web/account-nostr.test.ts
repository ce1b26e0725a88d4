import { finalizeEvent } from 'nostr-tools';
import { npubEncode } from 'nostr-tools/nip19';
import { unwrapEvent } from 'nostr-tools/nip59';
import { beforeAll, expect, it } from 'vitest';
import { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { TEST_ZAP_PUBKEY, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import {
  createTestEnvironment,
  type TestEnvironment,
} from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

const browser = useBrowser();
let relay: FakeNostrRelay;
let environment: TestEnvironment;

beforeAll(async () => {
  relay = await FakeNostrRelay.start();
  const env = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: relay.url };
  environment = await createTestEnvironment({ env });
  return async () => {
    await environment.close();
    await relay.close();
  };
});

it('switches Nostr messages on, with a test message in the language of the page', async () => {
  const wallet = environment.newWallet();
  const list = { kind: 10_050, created_at: 1, tags: [['relay', relay.url]], content: '' };
  relay.storeEvent(finalizeEvent(list, wallet.secretKey));
  const page = await openAccount(browser, wallet);
  const notifications = section(page, 'Notifications');
  await notifications.getByText(npubEncode(TEST_ZAP_PUBKEY)).waitFor();
  await notifications.getByRole('button', { name: 'Write to me' }).click();
  await notifications.getByText('The test was accepted.').waitFor();
  await inspectPage(page, 'account-nostr');
  const wrap = [...relay.events.values()].find(({ kind }) => kind === 1_059);
  expect(wrap && unwrapEvent(wrap, wallet.secretKey).content).toBe('Notifications work.');
  await notifications.getByRole('button', { name: 'Remove' }).click();
  await notifications.getByRole('button', { name: 'Write to me' }).waitFor();
});

it('says at once that the user has no list of relays for private messages', async () => {
  const page = await openAccount(browser, environment.newWallet());
  const notifications = section(page, 'Notifications');
  await notifications.getByRole('button', { name: 'Write to me' }).click();
  await notifications.getByText('The test was not accepted: You have no list of relays').waitFor();
});
