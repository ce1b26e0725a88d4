import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hold } from '../../demo/test-mint/holds.ts';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { type BlockingPoint, blockWrites, waitUntil } from '../helpers/database/postgres-locks.ts';
import {
  openTestDatabase,
  requirePostgresUrl,
  type TestDatabase,
} from '../helpers/database/test-database.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { fetchUsernameOwner, requestUsername } from '../helpers/recipients/username-requests.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';
import { TEST_JWT_SECRET, TEST_TREASURY_SECRET } from '../helpers/service/test-environment.ts';

/** These tests kill a process during a username purchase. Another process completes the purchase. */

/** A power of two, so that a token contains a single proof. */
const PRICE_SAT = 16;
const USERNAME = 'alice';

const TEST_TIMEOUT_MS = 180_000;
const RECOVERY_TIMEOUT_MS = 90_000;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let payer: EcashPayer;
/** Ends what blocks the killed process. */
let unblock: BlockingPoint['unblock'];

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  mint = await startTestMint();
  payer = await EcashPayer.open(mint);
  unblock = () => undefined;
});

afterEach(() => unblock());

/** Blocks the process at a step of the purchase. @param disconnectBuyer aborts the buyer's request */
type BlockProcess = (disconnectBuyer: () => void) => Promise<BlockingPoint> | BlockingPoint;

const holdSwap = (point: 'before' | 'after') => () =>
  toBlockingPoint(mint.holdNext('POST /v1/swap', point));

const BEFORE_RECORDING = 'before it is recorded';
const LATE_SWAP = 'before the mint receives the token, which arrives after the recovery';

const STEPS: [string, BlockProcess][] = [
  [
    BEFORE_RECORDING,
    () => blockWrites(database, 'username_purchase_proofs', 'username_purchase_proofs'),
  ],
  ['before the mint receives the token', holdSwap('before')],
  [LATE_SWAP, holdSwap('before')],
  [
    'while the mint redeems the token',
    () => toBlockingPoint(mint.holdNext('POST /v1/swap', 'during')),
  ],
  ['after the mint redeemed the token', holdSwap('after')],
  [
    'before the proofs are stored',
    () => blockWrites(database, 'treasury_proofs', 'treasury_proofs'),
  ],
  ['after the purchase is completed and before the response', blockAfterCompletion],
];

it.each(STEPS)(
  'sells the username once if the process is killed %s',
  async (step, block) => {
    const [first, second] = [startProcess(), startProcess()];
    const secondOrigin = await second.waitForOrigin();
    const wallet = new RecipientClient(await first.waitForOrigin());
    const token = await payer.mintToken(PRICE_SAT);
    await killDuringPurchase(first, block, wallet, token);
    if (step !== LATE_SWAP) {
      await unblock();
    }
    if (step !== BEFORE_RECORDING) {
      // The purchase is completed without another request of the buyer.
      await vi.waitFor(
        async () => {
          await expireLeases();
          expect(await readPurchaseStates()).toEqual(['completed']);
        },
        { timeout: RECOVERY_TIMEOUT_MS },
      );
      await expectSoldOnce(wallet, token, secondOrigin);
    } else {
      expect(await readPurchaseStates()).toEqual([]);
      expect(await payer.fetchTokenState(token)).toBe('UNSPENT');
    }
    await unblock();
    const retry = await requestUsername(wallet.withOrigin(secondOrigin), USERNAME, token);
    expect(retry).toMatchObject({ status: 201, body: { data: { user: { name: USERNAME } } } });
    expect((await requestUsername(new RecipientClient(secondOrigin), USERNAME)).status).toBe(409);
    await expectSoldOnce(wallet, token, secondOrigin);
  },
  TEST_TIMEOUT_MS,
);

function startProcess(): NutpostProcess {
  return new NutpostProcess('serve', {
    DATABASE_URL: requirePostgresUrl(testDatabase),
    DEFAULT_MINT_URL: mint.url,
    JWT_SECRET: TEST_JWT_SECRET,
    TREASURY_SECRET: TEST_TREASURY_SECRET,
    USERNAME_PRICE_SAT: String(PRICE_SAT),
  });
}

async function killDuringPurchase(
  process: NutpostProcess,
  block: BlockProcess,
  wallet: RecipientClient,
  token: string,
): Promise<void> {
  const buyer = new AbortController();
  const blockingPoint = await block(() => buyer.abort());
  ({ unblock } = blockingPoint);
  const status = requestUsername(wallet, USERNAME, token, { signal: buyer.signal }).then(
    (response) => response.status,
    () => 'no response',
  );
  await blockingPoint.reached;
  await process.kill();
  expect(await status).toBe('no response');
}

function toBlockingPoint(hold: Hold): BlockingPoint {
  return { reached: hold.reached, unblock: () => hold.release() };
}

function blockAfterCompletion(disconnectBuyer: () => void): BlockingPoint {
  const hold = mint.holdNext('POST /v1/swap', 'after');
  const reached = hold.reached.then(async () => {
    disconnectBuyer();
    hold.release();
    await waitUntil(async () => (await readPurchaseStates()).join() === 'completed');
  });
  return { reached, unblock: () => undefined };
}

async function expireLeases(): Promise<void> {
  await sql`
    update username_purchases
    set lease_expires_at = 0, next_attempt_at = 0
    where state = 'open'
  `.execute(database.db);
}

async function readPurchaseStates(): Promise<string[]> {
  const rows = await database.db.selectFrom('username_purchases').select('state').execute();
  return rows.map(({ state }) => state);
}

async function expectSoldOnce(
  wallet: RecipientClient,
  token: string,
  origin: string,
): Promise<void> {
  expect(await fetchUsernameOwner(origin, USERNAME)).toBe(wallet.pubkey);
  expect(await payer.fetchTokenState(token)).toBe('SPENT');
  expect(await readPurchaseStates()).toEqual(['completed']);
  const proofs = await database.db.selectFrom('treasury_proofs').select('amount_sat').execute();
  expect(proofs.reduce((sum, { amount_sat }) => sum + Number(amount_sat), 0)).toBe(PRICE_SAT);
}
