import { sql } from 'kysely';
import { verifyEvent } from 'nostr-tools';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { openTestDatabase, postgresUrl, type TestDatabase } from '../helpers/database.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { type BlockedWrite, blockWrites, waitUntil } from '../helpers/postgres-backends.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { startRelay } from '../helpers/start-test-relay.ts';
import { TEST_JWT_SECRET } from '../helpers/test-environment.ts';
import type { TestRelay } from '../helpers/test-relay.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/zap-requests.ts';

/** A process is killed at each step from a payment to its receipt at every relay. */

const AMOUNT_MSAT = 21_000;

/** Two starts of a process on a busy machine. */
const TEST_TIMEOUT_MS = 240_000;

const DELIVERED_WITHIN_MS = 120_000;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
/** The relay that stops the receipt. The zap request names it and the second relay. */
let first: TestRelay;
let relays: TestRelay[];
/** Releases the locks of a test. */
let clear: BlockedWrite['unblock'];

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  mint = await startMint();
  first = await startRelay();
  relays = [first, await startRelay(), await startRelay()];
  clear = () => undefined;
});

afterEach(() => clear());

it.each<[string, () => BlockedWrite | Promise<BlockedWrite>]>([
  [
    'before the payment is recorded',
    () => blockWrites(database, 'zap_receipts', 'insert into zap_receipts '),
  ],
  [
    'after a relay received the receipt and before it stored it',
    () => stopAtFate('ignore', () => first.receiveCounts.size > 0),
  ],
  [
    'after a relay stored it and before it confirms that',
    () => stopAtFate('store_and_ignore', () => first.events.size > 0),
  ],
  ['before the OK of the last relay is recorded', stopAtLastOk],
])(
  'delivers a receipt whose process is killed %s exactly once',
  async (_step, stopAt) => {
    const zap = await crash(stopAt);
    const sentBefore = relays.map(({ receiveCounts: timesSent }) => totalOf(timesSent));
    const known = await deliveries();
    const after = start();
    await expectOneReceipt(zap, await after.waitForOrigin());
    await vi.waitFor(
      async () => expect(await deliveries()).toEqual(['accepted', 'accepted', 'accepted']),
      { timeout: DELIVERED_WITHIN_MS },
    );
    await after.stop();
    expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]);
    for (const [index, { receiveCounts: timesSent }] of relays.entries()) {
      if (known[index] === 'accepted') {
        expect(totalOf(timesSent)).toBe(sentBefore[index]);
      }
    }
  },
  TEST_TIMEOUT_MS,
);

it(
  'leaves the receipts of a killed process to one that is running',
  async () => {
    const other = await start().waitForOrigin();
    const zap = await crash(() => stopAtFate('ignore', () => first.receiveCounts.size > 0));
    await expectOneReceipt(zap, other);
  },
  TEST_TIMEOUT_MS,
);

/** A paid zap. */
interface Zap {
  wallet: TestWallet;
  /** The zap request as its sender signed it. */
  text: string;
  invoice: string;
}

function start(): NutpostProcess {
  return new NutpostProcess('serve', {
    DATABASE_URL: postgresUrl(testDatabase),
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: relays[2]?.url ?? '',
  });
}

/** Pays a zap, kills the process at a step, and expires its leases and claims. */
async function crash(stopAt: () => BlockedWrite | Promise<BlockedWrite>): Promise<Zap> {
  const process = start();
  const wallet = new TestWallet(await process.waitForOrigin());
  const { text } = createZapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    relays: relays.slice(0, 2).map(({ url }) => url),
  });
  const query = buildZapQuery(text, AMOUNT_MSAT);
  const { body } = await requestJson(wallet.origin, `/.well-known/lnurlp/${wallet.npub}?${query}`);
  const stop = await stopAt();
  ({ unblock: clear } = stop);
  mint.pay(body.pr);
  await stop.reached;
  await process.kill();
  await clear();
  await sql`update watch_processes set lease_expires_at = 0`.execute(database.db);
  await sql`update zap_receipt_deliveries set next_attempt_at = 0 where state = 'open'`.execute(
    database.db,
  );
  return { wallet, text, invoice: body.pr };
}

/** All relays have the same receipt, and the list agrees with it. */
async function expectOneReceipt({ wallet, text, invoice }: Zap, base: string): Promise<void> {
  await vi.waitFor(() => expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]), {
    timeout: DELIVERED_WITHIN_MS,
  });
  const [receipt, ...others] = relays.flatMap(({ events }) => [...events.values()]);
  if (receipt === undefined) {
    throw new Error('there is no receipt');
  }
  expect(others).toEqual([receipt, receipt]);
  expect(verifyEvent(receipt)).toBe(true);
  expect(receipt).toMatchObject({ kind: 9735, pubkey: TEST_ZAP_PUBKEY, content: '' });
  expect(receipt.tags).toContainEqual(['description', text]);
  expect(receipt.tags).toContainEqual(['bolt11', invoice]);
  const listed = await wallet.withOrigin(base).listQuotes();
  expect(listed).toMatchObject([{ zapRequest: text, paidAt: receipt.created_at }]);
}

/** The state of each relay's delivery. */
async function deliveries(): Promise<string[]> {
  const rows = await database.db
    .selectFrom('zap_receipt_deliveries')
    .select(['relay', 'state'])
    .execute();
  return relays.map(({ url }) => rows.find((row) => row.relay === url)?.state ?? 'none');
}

function stopAtFate(
  eventFate: 'ignore' | 'store_and_ignore',
  condition: () => boolean,
): BlockedWrite {
  first.switches.eventHandling = eventFate;
  const answer = () => {
    first.switches.eventHandling = 'answer';
  };
  return { reached: first.waitForEvents(condition), unblock: answer };
}

/** Waits until all relays have the receipt and the first relay's OK is not recorded yet. */
function stopAtLastOk(): BlockedWrite {
  const release = first.holdResponses();
  const stopping = waitUntil(async () => {
    return (await deliveries()).join() === 'open,accepted,accepted' && first.events.size === 1;
  }).then(async () => {
    const table = 'zap_receipt_deliveries';
    const stop = await blockWrites(database, table, `update ${table}`);
    release();
    await stop.reached;
    return stop;
  });
  return { reached: stopping, unblock: async () => (await stopping).unblock() };
}

function totalOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}
