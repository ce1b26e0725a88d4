import { sql } from 'kysely';
import { verifyEvent } from 'nostr-tools';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { type BlockingPoint, blockWrites, waitUntil } from '../helpers/database/postgres-locks.ts';
import {
  openTestDatabase,
  requirePostgresUrl,
  type TestDatabase,
} from '../helpers/database/test-database.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import type { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  requestZapInvoice,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import { TEST_JWT_SECRET } from '../helpers/service/test-environment.ts';

/** These tests kill a process while it creates or delivers the receipt of a zap. */

const TEST_TIMEOUT_MS = 240_000;

const DELIVERY_TIMEOUT_MS = 120_000;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let firstRelay: FakeNostrRelay;
/** The first relay, another relay of the zap request, and the operator's relay. */
let relays: FakeNostrRelay[];
/** Ends what blocks the killed process. */
let unblock: BlockingPoint['unblock'];

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  mint = await startTestMint();
  firstRelay = await startFakeRelay();
  relays = [firstRelay, await startFakeRelay(), await startFakeRelay()];
  unblock = () => undefined;
});

afterEach(() => unblock());

it.each<[string, () => BlockingPoint | Promise<BlockingPoint>]>([
  [
    'before the payment is recorded',
    () => blockWrites(database, 'zap_receipts', 'insert into zap_receipts '),
  ],
  ['after a relay stored the receipt and before the relay confirmed it', blockAtFirstRelay],
  ['before it recorded the OK of the last relay', blockAtLastOk],
])(
  'delivers one receipt to all relays if the process is killed %s',
  async (_name, block) => {
    const zap = await payZapAndKillProcess(block);
    const countsBefore = relays.map(({ receiveCounts }) => sum(receiveCounts));
    const statesBefore = await readDeliveryStates();
    const nextProcess = startProcess();
    await expectOneReceipt(zap, await nextProcess.waitForOrigin());
    await vi.waitFor(
      async () => expect(await readDeliveryStates()).toEqual(['accepted', 'accepted', 'accepted']),
      { timeout: DELIVERY_TIMEOUT_MS },
    );
    await nextProcess.stop();
    expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]);
    for (const [index, { receiveCounts }] of relays.entries()) {
      if (statesBefore[index] === 'accepted') {
        expect(sum(receiveCounts)).toBe(countsBefore[index]);
      }
    }
  },
  TEST_TIMEOUT_MS,
);

interface PaidZap {
  recipient: RecipientClient;
  zapRequestJson: string;
  invoice: string;
}

function startProcess(): NutpostProcess {
  return new NutpostProcess('serve', {
    DATABASE_URL: requirePostgresUrl(testDatabase),
    JWT_SECRET: TEST_JWT_SECRET,
    DEFAULT_MINT_URL: mint.url,
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: relays[2]?.url ?? '',
  });
}

/** Pays a zap, kills the process at a step of its work, and lets the leases and claims of the process expire. */
async function payZapAndKillProcess(
  block: () => BlockingPoint | Promise<BlockingPoint>,
): Promise<PaidZap> {
  const process = startProcess();
  const recipient = new RecipientClient(await process.waitForOrigin());
  const { text: zapRequestJson, pr: invoice } = await requestZapInvoice(
    recipient.origin,
    recipient,
    { relays: relays.slice(0, 2).map(({ url }) => url) },
  );
  const blockingPoint = await block();
  ({ unblock } = blockingPoint);
  mint.pay(invoice);
  await blockingPoint.reached;
  await process.kill();
  await unblock();
  await sql`update watch_processes set lease_expires_at = 0`.execute(database.db);
  await sql`update zap_receipt_deliveries set next_attempt_at = 0 where state = 'open'`.execute(
    database.db,
  );
  return { recipient, zapRequestJson, invoice };
}

/** Waits until all relays have the same receipt, which must match the quote in the recipient's list. */
async function expectOneReceipt(
  { recipient, zapRequestJson, invoice }: PaidZap,
  origin: string,
): Promise<void> {
  await vi.waitFor(() => expect(relays.map(({ events }) => events.size)).toEqual([1, 1, 1]), {
    timeout: DELIVERY_TIMEOUT_MS,
  });
  const [receipt, ...others] = relays.flatMap(({ events }) => [...events.values()]);
  if (receipt === undefined) {
    throw new Error('no relay has a receipt');
  }
  expect(others).toEqual([receipt, receipt]);
  expect(verifyEvent(receipt)).toBe(true);
  expect(receipt).toMatchObject({ kind: 9735, pubkey: TEST_ZAP_PUBKEY, content: '' });
  expect(receipt.tags).toContainEqual(['description', zapRequestJson]);
  expect(receipt.tags).toContainEqual(['bolt11', invoice]);
  const quotes = await recipient.withOrigin(origin).listPaidQuotes();
  expect(quotes).toMatchObject([{ zapRequest: zapRequestJson, paidAt: receipt.created_at }]);
}

async function readDeliveryStates(): Promise<string[]> {
  const rows = await database.db
    .selectFrom('zap_receipt_deliveries')
    .select(['relay', 'state'])
    .execute();
  return relays.map(({ url }) => rows.find((row) => row.relay === url)?.state ?? 'none');
}

/** The point is reached when the first relay has stored an event, to which it does not respond. */
function blockAtFirstRelay(): BlockingPoint {
  firstRelay.switches.eventHandling = 'store_and_ignore';
  const unblock = () => {
    firstRelay.switches.eventHandling = 'answer';
  };
  return { reached: firstRelay.waitForEvents(1), unblock };
}

/** The point is reached when all relays have the receipt and only the first relay's OK is not recorded yet. */
function blockAtLastOk(): BlockingPoint {
  const releaseResponses = firstRelay.holdResponses();
  const blocking = waitUntil(async () => {
    return (
      (await readDeliveryStates()).join() === 'open,accepted,accepted' &&
      firstRelay.events.size === 1
    );
  }).then(async () => {
    const table = 'zap_receipt_deliveries';
    const blockedWrite = await blockWrites(database, table, `update ${table}`);
    releaseResponses();
    await blockedWrite.reached;
    return blockedWrite;
  });
  return { reached: blocking, unblock: async () => (await blocking).unblock() };
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}
