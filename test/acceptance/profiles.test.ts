import { type EventTemplate, finalizeEvent } from 'nostr-tools';
import { expect, it, onTestFinished } from 'vitest';
import { createEgress, type Egress } from '../../src/net/egress.ts';
import type { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { eventually } from '../helpers/eventually.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import type { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { startFakeRelay, startScriptedRelay } from '../helpers/relays/start-fake-relay.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** The names of Nostr profiles on payment pages. */

const HOUR_MS = 60 * 60_000;
const RETRY_MS = 5 * 60_000;

const MAX_LOOKUPS_PER_WINDOW = 10;
const WINDOW_MS = 10_000;

const environment = useTestEnvironment();
let addressCount = 0;

/** What hosts return for identifiers (NIP-05), by URL. */
const identifierResponses = new Map<string, unknown>();

/** Hosts of identifiers are the only ones that no test can start, because they need public names and certificates. */
function createTestEgress(operatorUrls: string[]): Egress {
  const egress = createEgress({ allowPrivateNetworks: true, operatorUrls });
  onTestFinished(() => egress.close());
  const createFetch = () => {
    const fetch = egress.createFetch();
    const request: GuardedFetch['request'] = async (options) => {
      const json = identifierResponses.get(options.url);
      return json === undefined
        ? fetch.request(options)
        : { outcome: 'responded', status: 200, headers: new Map(), json, text: '' };
    };
    return Object.assign(Object.create(fetch), { request }) as GuardedFetch;
  };
  return { ...egress, createFetch };
}

async function openService(env: Record<string, string> = {}) {
  const relay = await startFakeRelay();
  const clock = new TestClock();
  const settings = { ZAP_RELAYS: relay.url, TRUST_PROXY: '127.0.0.1', ...env };
  const { url } = await useAdditionalService(environment, settings, {
    clock: clock.now,
    egress: createTestEgress([relay.url, environment.mint.url]),
  });
  /** Returns the text that a payment page shows about the profile; undefined if there is none. */
  const open = async ({ npub }: RecipientClient) => {
    addressCount += 1;
    // The limit of pages per address is not tested here.
    const headers = { 'x-forwarded-for': `2001:db8:${addressCount}::1` };
    const html = await (await fetch(`${url}/${npub}`, { headers })).text();
    const [, text] = /<p class="profile">(.*?)<\/p>/s.exec(html) ?? [];
    return text?.replace(/<\/?bdi>/g, '|').replace(/\s+/g, ' ');
  };
  const waitForText = (wallet: RecipientClient, text: string) =>
    eventually(async () => {
      // On a busy machine, a relay may respond too late, and is asked again.
      clock.advance(RETRY_MS);
      expect(await open(wallet)).toBe(text);
    });
  return { relay, clock, open, waitForText };
}

function publish(relay: FakeNostrRelay, wallet: RecipientClient, event: Partial<EventTemplate>) {
  const template = { kind: 0, created_at: 1_000, content: '', tags: [], ...event };
  relay.storeEvent(finalizeEvent(template, wallet.secretKey));
}

it('appear after the first visit, and the newest profile at the relays of the recipient wins', async () => {
  const wallet = environment.newWallet();
  const { relay, clock, open, waitForText } = await openService();
  const ownRelay = await startFakeRelay();
  publish(relay, wallet, { kind: 10_002, tags: [['r', ownRelay.url]] });
  publish(relay, wallet, { content: JSON.stringify({ name: 'old' }) });
  const content = JSON.stringify({ name: 'alice', display_name: ' Alice  <b>Doe</b> ' });
  publish(ownRelay, wallet, { created_at: 1_001, content });
  expect(await open(wallet)).toBeUndefined();
  await waitForText(wallet, 'Nostr profile: |Alice &lt;b>Doe&lt;/b>|');

  publish(ownRelay, wallet, { created_at: 1_002, content: JSON.stringify({ name: 'renamed' }) });
  expect(await open(wallet)).toContain('Alice');
  clock.advance(HOUR_MS + 1);
  expect(await open(wallet)).toContain('Alice');
  await waitForText(wallet, 'Nostr profile: |renamed|');
  // If no relay responds, the page keeps the name.
  const { connections } = relay;
  const openedBefore = connections.opened;
  for (const failingRelay of [relay, ownRelay]) {
    await failingRelay.stop();
    failingRelay.switches.handshake = 503;
    await failingRelay.restart();
  }
  clock.advance(HOUR_MS + 1);
  await open(wallet);
  await eventually(() => expect(connections.opened).toBeGreaterThan(openedBefore));
  await relay.waitForEvents(() => connections.open === 0);
  expect(await open(wallet)).toBe('Nostr profile: |renamed|');
});

it('appear with an identifier (NIP-05) that its host confirms', async () => {
  const [alice, bob] = [environment.newWallet(), environment.newWallet()];
  const { relay, open, waitForText } = await openService();
  identifierResponses.set('https://alice.example/.well-known/nostr.json?name=alice', {
    names: { alice: alice.pubkey, bob: 5 },
  });
  const content = JSON.stringify({ name: 'Alice', nip05: 'Alice@alice.example' });
  publish(relay, alice, { content });
  publish(relay, bob, { content });
  await open(alice);
  await open(bob);
  await waitForText(alice, 'Nostr profile: |Alice| (alice@alice.example)');
  await waitForText(bob, 'Nostr profile: |Alice|');
});

it.each([
  ['no JSON', 'hello'],
  ['no object', '["name"]'],
  ['no text', '{"name": {"length": 1}, "display_name": 5}'],
  ['only invisible characters', JSON.stringify({ name: '\u202e\u200b\u0007 ' })],
  ['too long', JSON.stringify({ name: 'Alice', about: 'x'.repeat(20_000) })],
])('are left out if a profile is %s', async (_case, content) => {
  const wallet = environment.newWallet();
  const { relay, open } = await openService();
  publish(relay, wallet, { content });
  await open(wallet);
  // A second recipient, whose lookup starts later at the same relay.
  const other = environment.newWallet();
  publish(relay, other, { content: JSON.stringify({ name: `${'x'.repeat(60)}\u202e` }) });
  await eventually(async () =>
    expect(await open(other)).toBe(`Nostr profile: |${'x'.repeat(50)}|`),
  );
  expect(await open(wallet)).toBeUndefined();
});

it('are looked up at a fixed rate at most, and not at all with SITE_PROFILES=false', async () => {
  let lookups = 0;
  const relay = await startScriptedRelay((send, [kind, id, filter]) => {
    lookups += kind === 'REQ' && filter.kinds[0] === 0 ? 1 : 0;
    send(['EOSE', id]);
  });
  const disabled = await openService({ ZAP_RELAYS: relay.url, SITE_PROFILES: 'false' });
  const { clock, open } = await openService({ ZAP_RELAYS: relay.url });
  const [first = environment.newWallet(), ...wallets] = Array.from({ length: 30 }, () =>
    environment.newWallet(),
  );
  for (const wallet of wallets) {
    await disabled.open(wallet);
    await open(wallet);
  }
  await eventually(() => expect(lookups).toBe(MAX_LOOKUPS_PER_WINDOW));
  await open(first);
  clock.advance(WINDOW_MS);
  await open(first);
  await eventually(() => expect(lookups).toBe(MAX_LOOKUPS_PER_WINDOW + 1));
});
