import type { EventTemplate } from 'nostr-tools';
import { getPublicKey } from 'nostr-tools/pure';
import { finalizeEvent } from 'nostr-tools/wasm';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { EnvironmentVariables } from '../../src/config.ts';
import type { NostrKey } from './recipients.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import type { SimulatedRelay } from './simulated-relay.ts';
import { wallClockMs } from './virtual-platform.ts';

const ZAP_SECRET_KEY = '5'.repeat(64);

export const ZAP_PUBKEY = getPublicKey(Buffer.from(ZAP_SECRET_KEY, 'hex'));

/** What the operator of a seed has chosen about zaps. */
export interface ZapSettings {
  operatorRelays: readonly SimulatedRelay[];
  /** Null: all mints. */
  mints: readonly SimulatedMint[] | null;
  /** Of a recipient. Null: more than any seed has. */
  maxReceiptsPerHour: number | null;
}

export function chooseZapSettings(
  random: SeededRandom,
  relays: readonly SimulatedRelay[],
  mints: readonly SimulatedMint[],
): ZapSettings {
  const trustedMints = mints.filter(() => random.chance(0.7));
  return {
    operatorRelays: relays.slice(0, random.integer(1, 3)),
    mints: trustedMints.length > 0 && random.chance(0.2) ? trustedMints : null,
    maxReceiptsPerHour: random.chance(0.3) ? random.integer(1, 3) : null,
  };
}

export function toZapEnvironment(settings: ZapSettings): EnvironmentVariables {
  const { operatorRelays, mints, maxReceiptsPerHour } = settings;
  return {
    ZAP_SECRET_KEY,
    ZAP_RELAYS: operatorRelays.map(({ url }) => url).join(','),
    ...(mints !== null && { ZAP_MINTS: mints.map(({ url }) => url).join(',') }),
    ...(maxReceiptsPerHour !== null && { LIMIT_ZAP_RECEIPTS: String(maxReceiptsPerHour) }),
  };
}

/** A zap request (NIP-57), and what its sender knows about it. */
export interface ZapRequest {
  id: string;
  sender: string;
  /** As signed. */
  json: string;
  eventId: string | null;
  relays: readonly SimulatedRelay[];
  flaw: Flaw | null;
}

/** What a wallet may do wrong. The service creates no invoice for such a request. */
const FLAWS = {
  'wrong kind': (event) => ({ ...event, kind: 1 }),
  'two recipients': (event) => ({ ...event, tags: [...event.tags, ['p', '2'.repeat(64)]] }),
  'no recipient': (event) => ({ ...event, tags: event.tags.filter(([name]) => name !== 'p') }),
  'wrong amount': (event) => ({ ...event, tags: [...event.tags, ['amount', '1']] }),
  'wrong event id': (event) => ({ ...event, tags: [...event.tags, ['e', 'note1']] }),
  'too old': (event) => ({ ...event, created_at: event.created_at - 7_200 }),
  'from the future': (event) => ({ ...event, created_at: event.created_at + 7_200 }),
  'wrong signature': (event) => event,
  // The service creates an invoice for this one, but its payment gets no receipt.
  'other recipient': (event) => ({
    ...event,
    tags: event.tags.map((tag) => (tag[0] === 'p' ? ['p', '2'.repeat(64)] : tag)),
  }),
} satisfies Record<string, (event: EventTemplate) => EventTemplate>;

type Flaw = keyof typeof FLAWS;

/** Signs a zap request that names some relays. Some requests are invalid. */
export function createZapRequest(
  random: SeededRandom,
  sender: NostrKey,
  allRelays: readonly SimulatedRelay[],
  zap: { recipient: NostrKey; amountSat: number },
): ZapRequest {
  const relays = allRelays.filter(() => random.chance(0.4));
  const urls = relays.map(({ url }) => url + random.pick(['', '/']));
  const eventId = random.chance(0.5) ? random.pick(['a', 'b', 'c']).repeat(64) : null;
  const flaw = random.chance(0.1) ? random.pick(Object.keys(FLAWS) as Flaw[]) : null;
  const template: EventTemplate = {
    kind: 9_734,
    created_at: Math.floor(wallClockMs() / 1_000),
    content: random.pick(['', 'Thanks & greetings: "⚡" + 1 % \\']),
    tags: [
      ['p', zap.recipient.pubkey],
      ['relays', ...urls, ...(random.chance(0.2) ? ['wss://nowhere.example', 'no relay'] : [])],
      ...(random.chance(0.7) ? [['amount', String(zap.amountSat * 1_000)]] : []),
      ...(eventId === null ? [] : [['e', eventId]]),
    ],
  };
  const event = finalizeEvent(flaw === null ? template : FLAWS[flaw](template), sender.secretKey);
  const { id, pubkey } = event;
  const sig =
    flaw === 'wrong signature'
      ? event.sig.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))
      : event.sig;
  // Receipts must contain it as it was sent, even with spaces.
  const json = JSON.stringify({ ...event, sig }, null, random.pick([0, 0, 0, 1]));
  return { id, sender: pubkey, json, eventId, relays, flaw };
}
