import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { deleteChannels } from '../helpers/database/delete-channels.ts';
import { eventually } from '../helpers/eventually.ts';
import {
  SubscribedBrowser,
  startPushService,
  verifySender,
} from '../helpers/network/start-push-service.ts';
import { receiveListedPayment } from '../helpers/recipients/receive-listed-payment.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { scrapeMetrics } from '../helpers/service/metrics-scrape.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  createTestEnvironment,
  TEST_TREASURY_SECRET,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const PATH = '/api/v2/user/notifications';
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** After this time, a payment that was listed is reported. */
const DELAY_MS = 2 * SECOND_MS;

const clock = new TestClock();
const environment = useTestEnvironment({
  // The service does not know whether this mint issues quotes after their expiry.
  mint: { now: clock.now, switches: { version: 'Other/1.0' } },
  env: { METRICS_PORT: '0', MAX_COMMENT_LENGTH: '500' },
  overrides: { clock: clock.now },
});

afterEach(() => deleteChannels(environment.database.db));

it('encrypts a notification for the browser, and identifies itself to the push service', async () => {
  const { url, messages } = await startPushService();
  const wallet = environment.newWallet();
  const browser = new SubscribedBrowser(`${url}/send/1`);
  const settings = { language: 'de', timeZone: 'Europe/Berlin', showComment: true };
  const { webPushKey } = await addDevice(wallet, browser, settings);
  const { id, request } = await pay(wallet, 'amount=21000&comment=Tisch%204');
  clock.advance(DELAY_MS);
  const message = await messages.next();
  expect(message.path).toBe('/send/1');
  expect(message.headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-encoding': 'aes128gcm',
    urgency: 'high',
  });
  const [quote] = await wallet.listPaidQuotes();
  const deadlineMs = Number(quote?.['expiresAt']) * SECOND_MS;
  expect(Number(message.headers['ttl'])).toBe(Math.floor((deadlineMs - clock.nowMs) / SECOND_MS));
  const time = new Date(deadlineMs).toLocaleTimeString('de', {
    timeStyle: 'short',
    timeZone: 'Europe/Berlin',
  });
  const shown = browser.decrypt(message);
  expect(shown).toEqual({
    id: expect.stringMatching(/^msg_/),
    tag: expect.any(String),
    title: '21 Sats erhalten',
    text: expect.stringMatching(new RegExp(`^„Tisch 4“ Abholen bis .*${time}\\.$`)),
    url: '/collect?lang=de',
  });
  expect(JSON.stringify(shown)).not.toContain(id);
  const claims = await verifySender(message, { publicKey: webPushKey, audience: url });
  expect(claims.sub).toBe(environment.origin.replace('http:', 'https:'));
  expect(Number(claims.exp) * SECOND_MS - Date.now()).toBeLessThanOrEqual(DAY_MS);

  await waitForSentMessage(wallet);
  const { stdout } = await runOperatorCommand(environment.database, ['trace', request], {
    clock: clock.now,
  });
  expect(stdout).toMatch(/received, web_push to 127\.0\.0\.1:\d+: delivered after 1 attempt/);
  const delivered = { channel: 'web_push', outcome: 'delivered' };
  const metrics = await scrapeMetrics(environment.service);
  expect(metrics.sumSeries('nutpost_notifications_total', delivered)).toBe(1);
});

it('makes one message of a burst, without the comments', async () => {
  const { url, messages } = await startPushService();
  const wallet = environment.newWallet();
  const browser = new SubscribedBrowser(url);
  await addDevice(wallet, browser);
  await pay(wallet, 'amount=20000&comment=secret');
  await pay(wallet, 'amount=30000');
  clock.advance(DELAY_MS);
  const { title, text } = browser.decrypt(await messages.next());
  expect(title).toBe('50 sats received in 2 payments');
  expect(text).toMatch(/^Collect until .*\.$/);
  await waitForSentMessage(wallet);
  clock.advance(MINUTE_MS);
  await pay(wallet, 'amount=9000&comment=secret');
  clock.advance(DELAY_MS);
  const single = browser.decrypt(await messages.next());
  expect(single.title).toBe('9 sats received');
  expect(single.text).not.toContain('secret');
});

it('reminds of a payment before the deadline, and not of one that was collected', async () => {
  const { url, messages } = await startPushService();
  const wallet = environment.newWallet();
  const browser = new SubscribedBrowser(url);
  await addDevice(wallet, browser);
  await pay(wallet, 'amount=21000');
  const other = await pay(wallet, 'amount=22000');
  clock.advance(DELAY_MS);
  const received = browser.decrypt(await messages.next());
  expect(received.title).toBe('43 sats received in 2 payments');
  await waitForSentMessage(wallet);
  await environment.mint.markIssued(other.id);
  await eventually(async () =>
    expect(await wallet.listPaidQuotes()).toContainEqual(
      expect.objectContaining({ quoteId: other.id, state: 'ISSUED' }),
    ),
  );
  clock.advance(31 * MINUTE_MS);
  const reminder = browser.decrypt(await messages.next());
  expect(reminder.title).toBe('Not collected yet: 21 sats');
  expect(reminder.tag).not.toBe(received.tag);
  await eventually(async () => expect((await findChannelRow(wallet)).last).toBe(clock.nowMs));
  clock.advance(20 * MINUTE_MS);
  const lastCall = browser.decrypt(await messages.next());
  expect(lastCall.id).not.toBe(reminder.id);
  // It replaces what is shown of the same payments.
  expect(lastCall.tag).toBe(reminder.tag);
  expect(messages.items).toEqual([]);
});

it('keeps a message with long comments below 3 KB', async () => {
  const { url, messages } = await startPushService();
  const wallet = environment.newWallet();
  const browser = new SubscribedBrowser(url);
  await addDevice(wallet, browser, { showComment: true });
  await pay(wallet, `amount=1000&comment=${encodeURIComponent('\u{1f95c}'.repeat(500))}`);
  clock.advance(DELAY_MS);
  const message = await messages.next();
  expect(message.body.length).toBeLessThan(3_000);
  expect(browser.decrypt(message).text).toMatch(/^“\u{1f95c}{150}” Collect until/u);
});

it('keeps a message for devices that are off although its deadline has passed, and does not name the deadline', async () => {
  const answers = [{ status: 503, headers: { 'retry-after': '7200' } }];
  const { url, messages } = await startPushService(() => answers.shift() ?? { status: 201 });
  const wallet = environment.newWallet();
  const browser = new SubscribedBrowser(url);
  await addDevice(wallet, browser);
  await pay(wallet, 'amount=1000');
  clock.advance(DELAY_MS);
  expect(browser.decrypt(await messages.next()).text).toMatch(/^Collect until/);
  await waitForChannel(wallet, 'problem');
  clock.advance(2 * HOUR_MS);
  const message = await messages.next();
  expect(browser.decrypt(message)).toMatchObject({ title: '1 sat received', text: '' });
  expect(Number(message.headers['ttl'])).toBe((3 * DAY_MS) / SECOND_MS);
});

it.each([404, 410])('stops using a device after the status %i', async (status) => {
  const { url, messages } = await startPushService(() => ({ status }));
  const wallet = environment.newWallet();
  const browser = new SubscribedBrowser(url);
  await addDevice(wallet, browser);
  await pay(wallet, 'amount=1000');
  clock.advance(DELAY_MS);
  await messages.next();
  const channel = await waitForChannel(wallet, 'disabledAt');
  expect(channel).toMatchObject({ problem: `HTTP ${status}` });
  await addDevice(wallet, browser);
  expect(await listChannels(wallet)).toEqual([
    expect.not.objectContaining({ disabledAt: expect.anything(), problem: expect.anything() }),
  ]);
});

it('replaces a device with the same endpoint, and keeps what it is waiting for', async () => {
  const { url, messages } = await startPushService();
  const wallet = environment.newWallet();
  const first = await addDevice(wallet, new SubscribedBrowser(url));
  await pay(wallet, 'amount=1000');
  const browser = new SubscribedBrowser(url);
  const second = await addDevice(wallet, browser, { language: 'fr' });
  expect(second.channels).toEqual([{ ...first.channels[0], createdAt: expect.any(Number) }]);
  clock.advance(DELAY_MS);
  expect(browser.decrypt(await messages.next()).title).toBe('Reçu : 1 sat');

  const stranger = environment.newWallet();
  const { channels } = await addDevice(stranger, browser);
  expect(channels[0]?.id).not.toBe(second.channels[0]?.id);
  expect(await listChannels(wallet)).toHaveLength(1);
});

it.each(['was added again', 'has accepted a test'])(
  'sends to a device that has failed as soon as it %s',
  async (change) => {
    const answers = [{ status: 503, headers: { 'retry-after': '7200' } }];
    const { url, messages } = await startPushService(() => answers.shift() ?? { status: 201 });
    const wallet = environment.newWallet();
    const browser = new SubscribedBrowser(url);
    const { channels } = await addDevice(wallet, browser);
    await pay(wallet, 'amount=1000');
    clock.advance(DELAY_MS);
    const { id } = browser.decrypt(await messages.next());
    await waitForChannel(wallet, 'problem');
    if (change === 'was added again') {
      await addDevice(wallet, browser);
    } else {
      await wallet.send('POST', `${PATH}/test`, { id: channels[0]?.id });
      expect(browser.decrypt(await messages.next()).title).toBe('Notifications work.');
    }
    expect(browser.decrypt(await messages.next()).id).toBe(id);
  },
);

it('sends a test to any of the devices, and at most 10 are possible', async () => {
  const { url, messages } = await startPushService();
  const wallet = environment.newWallet();
  const browsers = Array.from(
    { length: 11 },
    (_, index) => new SubscribedBrowser(`${url}/${index}`),
  );
  const channels = browsers.map(({ subscription }) => ({ kind: 'web_push', subscription }));
  expect((await wallet.send('PUT', PATH, { channels })).status).toBe(400);
  const { body } = await wallet.send('PUT', PATH, { channels: channels.slice(0, 10) });
  const { id } = body.data.channels[9];
  expect((await wallet.send('POST', `${PATH}/test`, { id })).body).toMatchObject({ data: {} });
  const message = await messages.next();
  const browser = browsers[Number(message.path.slice(1))];
  expect(browser?.decrypt(message)).toMatchObject({ title: 'Notifications work.', text: '' });
});

it('sends each message once, and with one key, although two processes send them', async () => {
  const service = await useAdditionalService(environment, {}, { clock: clock.now });
  const { url, messages } = await startPushService();
  const wallets = Array.from({ length: 8 }, () => environment.newWallet());
  const keys = new Set<string>();
  for (const [index, wallet] of wallets.entries()) {
    const { webPushKey } = await addDevice(wallet, new SubscribedBrowser(`${url}/${index}`));
    keys.add(webPushKey);
    await pay(wallet, 'amount=1000');
  }
  const other = environment.newWallet().withOrigin(service.publicOrigin);
  keys.add((await other.get(PATH)).body.data.webPushKey);
  expect(keys.size).toBe(1);
  clock.advance(DELAY_MS);
  const paths = [];
  for (const _ of wallets) {
    paths.push((await messages.next()).path);
  }
  expect(new Set(paths).size).toBe(8);
  for (const wallet of wallets) {
    await waitForSentMessage(wallet);
  }
  expect(messages.items).toEqual([]);
});

it('has other keys, and says so, after the operator has changed TREASURY_SECRET', async () => {
  const { url } = await startPushService();
  const wallet = environment.newWallet();
  const { channels, webPushKey } = await addDevice(wallet, new SubscribedBrowser(url));
  const TREASURY_SECRET = `${TEST_TREASURY_SECRET}, changed`;
  const service = await useAdditionalService(
    environment,
    { TREASURY_SECRET },
    { clock: clock.now },
  );
  const changed = wallet.withOrigin(service.publicOrigin);
  expect((await changed.get(PATH)).body.data.webPushKey).not.toBe(webPushKey);
  const { body } = await changed.send('POST', `${PATH}/test`, { id: channels[0]?.id });
  expect(body.data.problem).toContain('has lost the key of this channel');
});

describe('refuses', () => {
  const { subscription } = new SubscribedBrowser('https://push.example/1');
  const { endpoint, keys } = subscription;
  const offCurve = Buffer.from(keys.p256dh, 'base64url').fill(1, 1).toString('base64url');

  it.each([
    [
      'an endpoint with a password',
      { subscription: { keys, endpoint: 'https://a:b@push.example' } },
    ],
    ['an endpoint that is no URL', { subscription: { keys, endpoint: 'push' } }],
    ['a long endpoint', { subscription: { keys, endpoint: `${endpoint}${'1'.repeat(1_024)}` } }],
    [
      'a point that is not on the curve',
      { subscription: { endpoint, keys: { ...keys, p256dh: offCurve } } },
    ],
    [
      'a compressed point',
      { subscription: { endpoint, keys: { ...keys, p256dh: `Ag${'A'.repeat(42)}` } } },
    ],
    ['no key', { subscription: { endpoint, keys: { ...keys, p256dh: '' } } }],
    ['a short secret', { subscription: { endpoint, keys: { ...keys, auth: keys.auth.slice(4) } } }],
    ['an unknown time zone', { subscription, timeZone: 'Europe/Atlantis' }],
    ['a language that is none', { subscription, language: 'de_DE!' }],
  ])('%s', async (_title, device) => {
    const wallet = environment.newWallet();
    const channels = [{ kind: 'web_push', ...device }];
    expect((await wallet.send('PUT', PATH, { channels })).status).toBe(400);
  });

  it('addresses that are not public', async () => {
    const secure = await createTestEnvironment({
      env: { ALLOW_PRIVATE_NETWORKS: 'false', DEFAULT_MINT_URL: 'https://mint.example' },
    });
    onTestFinished(() => secure.close());
    const wallet = secure.newWallet();
    const plain = [
      { kind: 'web_push', subscription: { keys, endpoint: 'http://127.0.0.1:4321/1' } },
    ];
    expect((await wallet.send('PUT', PATH, { channels: plain })).status).toBe(400);
    for (const host of ['127.0.0.1', '[::1]', '169.254.169.254', 'localhost']) {
      const { channels } = await addDevice(wallet, new SubscribedBrowser(`https://${host}:4321/1`));
      const { body } = await wallet.send('POST', `${PATH}/test`, { id: channels[0]?.id });
      expect(body.data.problem).toBe('forbidden address');
    }
  });
});

function pay(wallet: RecipientClient, query: string) {
  return receiveListedPayment(environment, clock, wallet, { query });
}

interface Channel {
  id: string;
  createdAt: number;
}

/** Adds a device as the only channel. */
async function addDevice(
  wallet: RecipientClient,
  { subscription }: SubscribedBrowser,
  settings: object = {},
) {
  const channels = [{ kind: 'web_push', subscription, ...settings }];
  const { status, body } = await wallet.send('PUT', PATH, { channels });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data as { channels: Channel[]; webPushKey: string };
}

async function listChannels(wallet: RecipientClient): Promise<Channel[]> {
  return (await wallet.get(PATH)).body.data.channels;
}

/** Waits until the wallet's channel has a property. */
function waitForChannel(wallet: RecipientClient, property: string): Promise<Channel> {
  return eventually(async () => {
    const [channel] = await listChannels(wallet);
    expect(channel).toHaveProperty(property);
    return channel as Channel;
  });
}

function findChannelRow(wallet: RecipientClient) {
  return environment.database.db
    .selectFrom('notification_channels')
    .select('last_sent_at as last')
    .where('pubkey', '=', wallet.pubkey)
    .executeTakeFirstOrThrow();
}

async function waitForSentMessage(wallet: RecipientClient): Promise<void> {
  await waitForChannel(wallet, 'sentAt');
}
