import { finalizeEvent } from 'nostr-tools';
import { GiftWrap } from 'nostr-tools/kinds';
import { npubEncode } from 'nostr-tools/nip19';
import { unwrapEvent } from 'nostr-tools/nip59';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { deleteChannels } from '../helpers/database/delete-channels.ts';
import { eventually } from '../helpers/eventually.ts';
import { startWebhookReceiver } from '../helpers/network/start-webhook-receiver.ts';
import {
  payUntilListed,
  receiveListedPayment,
} from '../helpers/recipients/receive-listed-payment.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  requestZapInvoice,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { scrapeMetrics } from '../helpers/service/metrics-scrape.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  createTestEnvironment,
  type TestEnvironment,
  useAdditionalService,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const PATH = '/api/v2/user/notifications';
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
/** After this time, a payment that was listed is reported. */
const DELAY_MS = 2 * SECOND_MS;

const clock = new TestClock();
let environment: TestEnvironment;
/** Where recipients publish their lists of relays. */
let operatorRelay: FakeNostrRelay;

beforeAll(async () => {
  operatorRelay = await FakeNostrRelay.start();
  environment = await createTestEnvironment({
    // The service does not know whether this mint issues quotes after their expiry.
    mint: { now: clock.now, switches: { version: 'Other/1.0' } },
    env: {
      METRICS_PORT: '0',
      ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
      ZAP_RELAYS: operatorRelay.url,
      MAX_COMMENT_LENGTH: '2000',
    },
    overrides: { clock: clock.now },
  });
  return async () => {
    await environment.close();
    await operatorRelay.close();
  };
});

// Relays are gone when their test ends.
afterEach(() => deleteChannels(environment.database.db));

it('sends a private message for a payment, which only the recipient can read', async () => {
  const relay = await startFakeRelay();
  const wallet = newWallet();
  await addChannel(wallet, [relay.url], { language: 'de', timeZone: 'Asia/Tokyo' });
  const quote = await pay(wallet, 'amount=21000&comment=Great%20talk');
  clock.advance(DELAY_MS);
  const { message, wrap } = await readMessage(wallet, relay);
  const { deadlineMs } = await readPayment(wallet);
  const time = new Intl.DateTimeFormat('de', { timeStyle: 'short', timeZone: 'Asia/Tokyo' });
  expect(message.content).toMatch(
    /^21 Sats erhalten\n„Great talk“ .*\d\d:\d\d.*\nhttp:\/\/localhost:\d+\/collect$/,
  );
  expect(message.content).toContain(time.format(deadlineMs));
  expect(message).toMatchObject({ kind: 14, pubkey: TEST_ZAP_PUBKEY });
  expect(message.tags).toContainEqual(['p', wallet.pubkey]);
  expect(wrap.pubkey).not.toBe(TEST_ZAP_PUBKEY);
  expect(wrap.created_at * 1_000).toBeLessThanOrEqual(clock.nowMs);
  expect(wrap.created_at * 1_000).toBeGreaterThan(clock.nowMs - 2 * 24 * 60 * MINUTE_MS - 1_000);
  for (const secret of [quote.id, quote.request]) {
    expect(JSON.stringify([wrap, message])).not.toContain(secret);
  }
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  expect(await trace(quote.request)).toMatch(
    /received, nostr: delivered after 1 attempt.*accepted by 1 of 1 relays/s,
  );
  const metrics = await scrapeMetrics(environment.service);
  const delivered = { channel: 'nostr', outcome: 'delivered' };
  expect(metrics.sumSeries('nutpost_notifications_total', delivered)).toBeGreaterThan(0);
});

it('names the payer of a zap, and no payer of several or of an anonymous one', async () => {
  const relay = await startFakeRelay();
  const wallet = newWallet();
  await addChannel(wallet, [relay.url]);
  const zap = async (tags: string[][], comment: string) => {
    const { event, pr } = await requestZapInvoice(environment.service.url, wallet, {
      tags,
      comment,
    });
    await payUntilListed(environment, clock, pr);
    return `nostr:${npubEncode(event.pubkey)}`;
  };
  const payer = await zap([], 'Nice\nnote');
  clock.advance(DELAY_MS);
  const { message } = await readMessage(wallet, relay);
  expect(message.content).toMatch(new RegExp(`^21 sats from ${payer}\n“Nice note” Collect until `));

  await zap([['anon']], 'Hidden');
  clock.advance(MINUTE_MS);
  expect((await readMessage(wallet, relay, 2)).message.content).toMatch(
    /^21 sats received\n“Hidden” /,
  );

  await zap([], 'First');
  await zap([], 'Second');
  clock.advance(MINUTE_MS);
  const { content } = (await readMessage(wallet, relay, 3)).message;
  expect(content).toMatch(/^42 sats received in 2 payments\nCollect until /);
});

it('sends nothing when a payment is collected, and a reminder if it is not', async () => {
  const relay = await startFakeRelay();
  const wallet = newWallet();
  await addChannel(wallet, [relay.url]);
  const collected = await pay(wallet, 'amount=22000');
  clock.advance(DELAY_MS);
  await readMessage(wallet, relay);
  await environment.mint.markIssued(collected.id);
  await pay(wallet, 'amount=21000');
  clock.advance(MINUTE_MS);
  await readMessage(wallet, relay, 2);
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  const { paidAtMs, deadlineMs } = await readPayment(wallet);
  clock.advance((paidAtMs + deadlineMs) / 2 - clock.nowMs + 5 * SECOND_MS);
  const { message } = await readMessage(wallet, relay, 3);
  expect(message.content).toMatch(/^Not collected yet: 21 sats\nCollect until /);
});

it('tells a recipient who lists no relays for private messages', async () => {
  const wallet = newWallet();
  const { id } = await addChannel(wallet, null);
  const problem = 'You have no list of relays for private messages (kind 10050)';
  expect((await wallet.send('POST', `${PATH}/test`, { id })).body.data).toEqual({ problem });
  await pay(wallet, 'amount=21000');
  clock.advance(DELAY_MS);
  await waitForChannel(wallet, (channel) => channel.problem === problem);

  const relay = await startFakeRelay();
  publishRelayList(wallet, [relay.url]);
  clock.advance(MINUTE_MS);
  expect((await readMessage(wallet, relay)).message.content).toContain('21 sats received');
});

it('says so if the relay with the list does not respond', async () => {
  const silent = await startFakeRelay({ handshake: 503 });
  const service = await useAdditionalService(
    environment,
    { NOTIFY_SECRET_KEY: '3b'.repeat(32), ZAP_RELAYS: silent.url },
    { clock: clock.now },
  );
  const wallet = environment.newWallet().withOrigin(service.publicOrigin);
  const { id } = await addChannel(wallet, null);
  const { body } = await wallet.send('POST', `${PATH}/test`, { id });
  expect(body.data.problem).toMatch(/do not respond/);
});

it('delivers to the relays that accept the message, also after authenticating', async () => {
  const members = await startFakeRelay({ auth: 'at_first_message', now: clock.now });
  const refusing = await startFakeRelay({ rejectionMessage: 'blocked: not for you' });
  const down = await startFakeRelay({ handshake: 503 });
  const wallet = newWallet();
  await addChannel(wallet, [down.url, refusing.url, members.url]);
  const { request } = await pay(wallet, 'amount=21000');
  clock.advance(DELAY_MS);
  await readMessage(wallet, members);
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  expect(members.authEvents.map(({ pubkey }) => pubkey)).toEqual([TEST_ZAP_PUBKEY]);
  expect(await trace(request)).toContain('accepted by 1 of 3 relays');
});

it('repeats the same message until a relay accepts it', async () => {
  const relay = await startFakeRelay({ eventHandling: 'store_and_ignore' });
  const wallet = newWallet();
  await addChannel(wallet, [relay.url]);
  await pay(wallet, 'amount=21000&comment=Great%20talk');
  clock.advance(DELAY_MS);
  const first = await readMessage(wallet, relay);
  await waitForChannel(wallet, ({ problem }) => problem === `${relay.url}: no response`);
  relay.switches.rejectionMessage = 'rate-limited: slow down';
  relay.switches.eventHandling = 'answer';
  clock.advance(2 * SECOND_MS);
  await waitForChannel(wallet, ({ problem }) => problem?.includes('slow down') === true);
  relay.switches.rejectionMessage = null;
  clock.advance(23 * 60 * MINUTE_MS);
  const second = await readMessage(wallet, relay, 2);
  expect(second.message).toEqual(first.message);
  expect(second.wrap.pubkey).not.toBe(first.wrap.pubkey);
});

it('delivers the message of each recipient once although two processes send them', async () => {
  await useAdditionalService(
    environment,
    { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: operatorRelay.url },
    { clock: clock.now },
  );
  const relay = await startFakeRelay();
  const wallets = Array.from({ length: 8 }, () => newWallet());
  for (const wallet of wallets) {
    await addChannel(wallet, [relay.url]);
    await pay(wallet, 'amount=21000');
  }
  clock.advance(DELAY_MS);
  for (const wallet of wallets) {
    await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  }
  expect(relay.events.size).toBe(8);
});

it('does not delay a webhook because relays do not respond', async () => {
  const silent = await startFakeRelay({ handshake: 'silent' });
  const { url, webhooks } = await startWebhookReceiver();
  const wallet = newWallet();
  const relays = Array.from({ length: 10 }, (_, index) => `${silent.url}/${index}`);
  publishRelayList(wallet, relays);
  const channels = [{ kind: 'nostr' }, { kind: 'webhook', url }];
  expect((await wallet.send('PUT', PATH, { channels })).status).toBe(200);
  await pay(wallet, 'amount=21000');
  clock.advance(DELAY_MS);
  await webhooks.next();
  await silent.stop();
});

it('uses ten relays of a longer list', async () => {
  const relay = await startFakeRelay();
  const wallet = newWallet();
  const relays = Array.from({ length: 500 }, (_, index) => `${relay.url}/${index}`);
  await addChannel(wallet, relays);
  const { request } = await pay(wallet, 'amount=21000');
  clock.advance(DELAY_MS);
  await waitForChannel(wallet, ({ sentAt }) => sentAt !== undefined);
  expect(await trace(request)).toContain('accepted by 10 of 10 relays');
  expect(relay.connections.opened).toBe(10);
});

it('sends at most 120 tests a minute, because each takes milliseconds of processor time', async () => {
  const wallet = newWallet();
  const { id } = await addChannel(wallet, null);
  const statuses = await Promise.all(
    Array.from(
      { length: 121 },
      async () => (await wallet.send('POST', `${PATH}/test`, { id })).status,
    ),
  );
  expect(statuses).toContain(429);
  clock.advance(MINUTE_MS);
  expect((await wallet.send('POST', `${PATH}/test`, { id })).status).toBe(200);
});

it('shortens a long comment', async () => {
  const relay = await startFakeRelay();
  const wallet = newWallet();
  await addChannel(wallet, [relay.url]);
  await pay(wallet, `amount=21000&comment=${'%F0%9F%A5%9C'.repeat(2_000)}`);
  clock.advance(DELAY_MS);
  const { message, wrap } = await readMessage(wallet, relay);
  expect(message.content).toContain(`“${'🥜'.repeat(500)}”`);
  expect(JSON.stringify(wrap).length).toBeLessThan(16 * 1024);
});

it.each([
  ['neither NOTIFY_SECRET_KEY nor ZAP_SECRET_KEY', {}],
  ['no ZAP_RELAYS', { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY }],
])('offers no Nostr messages with %s', async (_case, env) => {
  const service = await useAdditionalService(environment, env, { clock: clock.now });
  const wallet = environment.newWallet().withOrigin(service.publicOrigin);
  const { body } = await wallet.get(PATH);
  expect(body.data).not.toHaveProperty('nostrPubkey');
  expect((await wallet.send('PUT', PATH, { channels: [{ kind: 'nostr' }] })).status).toBe(400);
});

it.each([
  ['an unknown time zone', { timeZone: 'Mars/Base' }],
  ['an unknown language', { language: 'xx' }],
])('refuses %s', async (_case, reader) => {
  const channels = [{ kind: 'nostr', ...reader }];
  expect((await newWallet().send('PUT', PATH, { channels })).status).toBe(400);
});

interface Channel {
  id: string;
  sentAt?: number;
  problem?: string;
}

function newWallet(): RecipientClient {
  return environment.newWallet();
}

/** Adds a channel for Nostr messages to these relays. Null: the recipient has no list of relays. */
async function addChannel(
  wallet: RecipientClient,
  relays: readonly string[] | null,
  options: Record<string, unknown> = {},
): Promise<Channel> {
  if (relays !== null) {
    publishRelayList(wallet, relays);
  }
  const channels = [{ kind: 'nostr', ...options }];
  const { status, body } = await wallet.send('PUT', PATH, { channels });
  expect(status, JSON.stringify(body)).toBe(200);
  const [channel] = body.data.channels;
  expect(channel).toEqual({
    id: expect.any(String),
    kind: 'nostr',
    minAmount: 1,
    createdAt: expect.any(Number),
  });
  return channel;
}

function publishRelayList({ secretKey }: RecipientClient, relays: readonly string[]): void {
  const tags = relays.map((url) => ['relay', url]);
  const template = { kind: 10_050, created_at: 1, tags, content: '' };
  operatorRelay.storeEvent(finalizeEvent(template, secretKey));
}

function pay(wallet: RecipientClient, query: string) {
  return receiveListedPayment(environment, clock, wallet, { query });
}

async function readPayment(wallet: RecipientClient) {
  const [newest] = await wallet.listPaidQuotes();
  return {
    paidAtMs: Number(newest?.['paidAt']) * SECOND_MS,
    deadlineMs: Number(newest?.['expiresAt']) * SECOND_MS,
  };
}

/** Waits until a relay has received this many messages, and decrypts the last one. */
async function readMessage(wallet: RecipientClient, relay: FakeNostrRelay, count = 1) {
  await relay.waitForEvents(count);
  expect(relay.events.size).toBe(count);
  const wrap = [...relay.events.values()].at(-1);
  if (wrap === undefined) {
    throw new Error('the relay has no message');
  }
  expect(wrap).toMatchObject({ kind: GiftWrap, tags: [['p', wallet.pubkey]] });
  return { wrap, message: unwrapEvent(wrap, wallet.secretKey) };
}

/** Waits until the wallet's only channel is as expected. */
async function waitForChannel(
  wallet: RecipientClient,
  isExpected: (channel: Channel) => boolean,
): Promise<void> {
  await eventually(async () => {
    const { channels } = (await wallet.get(PATH)).body.data as { channels: Channel[] };
    expect(channels.every(isExpected), JSON.stringify(channels)).toBe(true);
  });
}

async function trace(request: string): Promise<string> {
  const options = { clock: clock.now };
  return (await runOperatorCommand(environment.database, ['trace', request], options)).stdout;
}
