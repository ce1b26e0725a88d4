import { generateSecretKey, getPublicKey } from 'nostr-tools/pure';
import { beforeEach, expect, it } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import { type Db, transaction } from '../../src/database/transaction.ts';
import type { ObservedState } from '../../src/mints/quote-responses.ts';
import { deleteUserData } from '../../src/operator/user-data-store.ts';
import type { SourcedObservation } from '../../src/quotes/decide-observation.ts';
import { listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { findQuoteByVerifyToken, insertQuotes } from '../../src/quotes/quote-store.ts';
import { listAuditEvents } from '../../src/recipients/audit-store.ts';
import { RecipientDirectory } from '../../src/recipients/recipient-directory.ts';
import { findUserByName } from '../../src/recipients/user-store.ts';
import { claimUsername } from '../../src/usernames/username-store.ts';
import { lockRows, waitForBlockedStatement } from '../helpers/database/postgres-locks.ts';
import { openTestDatabase, type TestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
} from '../helpers/recipients/quote-fixtures.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';

const LOCKED_RECIPIENT = '1'.repeat(64);
const OTHER_RECIPIENT = '2'.repeat(64);

let testDatabase: TestDatabase;
let database: Database;
let db: Db;

beforeEach(async () => {
  ({ testDatabase, database } = await openTestDatabase());
  db = database.db;
});

it('records payments of other recipients while the row of one recipient is locked', async () => {
  const recorder = createObservationRecorder(db);
  const recordPayment = async (recipient: string, mintIndex: number) => {
    const quote = buildUnpaidQuote(recipient, { mintUrl: `https://mint-${mintIndex}.example` });
    await insertQuotes(db, [quote]);
    await recorder.record(quote.mintUrl, [observe(quote, 'PAID')]);
    return quote;
  };
  await recordPayment(LOCKED_RECIPIENT, 0);
  const unlock = await lockUser(LOCKED_RECIPIENT);

  const delayedPayments = Promise.all(
    [1, 2, 3].map((mint) => recordPayment(LOCKED_RECIPIENT, mint)),
  );
  const otherQuotes = await Promise.all(
    [1, 2, 3, 4, 5].map((mint) => recordPayment(OTHER_RECIPIENT, mint)),
  );
  expect(await readStates(otherQuotes)).toEqual(otherQuotes.map(() => 'PAID'));
  expect(await readSequenceNumbers(LOCKED_RECIPIENT)).toEqual([1]);

  await unlock();
  await delayedPayments;
  expect(await readSequenceNumbers(LOCKED_RECIPIENT)).toEqual([1, 2, 3, 4]);
  expect(await readSequenceNumbers(OTHER_RECIPIENT)).toEqual([1, 2, 3, 4, 5]);
});

it('gives a key a name while the data of the key are deleted', async () => {
  await db.insertInto('users').values({ pubkey: LOCKED_RECIPIENT }).execute();
  const unlock = await lockRows(testDatabase, 'select 1 from users for no key update', []);
  const claim = { pubkey: LOCKED_RECIPIENT, nowMs: 1, graceMs: 1 };
  const claiming = transaction(db, (tx) => claimUsername(tx, 'alice', claim));
  await waitForBlockedStatement(database);
  await unlock('delete from users');
  expect(await claiming).toBe(true);
  expect(await findUserByName(db, 'alice')).toMatchObject({ pubkey: LOCKED_RECIPIENT });
});

it('records what was before a change of settings that had to wait for another change', async () => {
  const [old, other] = ['https://old.example', 'https://other.example'] as const;
  await db.insertInto('users').values({ pubkey: LOCKED_RECIPIENT, mint_url: old }).execute();
  const unlock = await lockRows(testDatabase, 'update users set mint_url = $1', [other]);
  const recipients = new RecipientDirectory({
    db,
    defaults: { mintUrl: old, lockQuotes: false },
    clock: Date.now,
    monotonicMs: () => performance.now(),
  });
  const saving = recipients.saveSettings(LOCKED_RECIPIENT, { mintUrl: old }, () => undefined);
  await waitForBlockedStatement(database);
  await unlock();
  await saving;
  const filter = { about: null, sinceMs: null, beforeId: null };
  expect(await listAuditEvents(db, filter, 2)).toEqual([
    expect.objectContaining({
      before: { mintUrl: other, lockQuotes: false },
      after: { mintUrl: old, lockQuotes: false },
    }),
  ]);
});

it('lists a payment with an earlier one of the same second, although it commits while the list is read', async () => {
  const clock = () => 1_800_000_000_000;
  const [first, second] = [1, 2].map(() => buildUnpaidQuote(OTHER_RECIPIENT)) as [
    NewQuote,
    NewQuote,
  ];
  await insertQuotes(db, [first, second]);
  await createObservationRecorder(db, { clock }).record(first.mintUrl, [observe(first, 'PAID')]);
  const hasWritten = Promise.withResolvers<void>();
  const canCommit = Promise.withResolvers<void>();
  const signReceipts = async () => {
    hasWritten.resolve();
    await canCommit.promise;
    return { signed: [], refused: [] };
  };
  const zaps = { signReceipts, onReceiptsCreated: () => undefined };
  const recorder = createObservationRecorder(db, { clock, zaps });
  const recording = recorder.record(second.mintUrl, [observe(second, 'PAID')]);
  await hasWritten.promise;
  const page = { sinceSeconds: null, limit: 50, offset: 0 };
  const reading = listPaidQuotes(db, OTHER_RECIPIENT, page, clock());
  await waitForBlockedStatement(database);
  canCommit.resolve();
  await recording;
  // A wallet that got only the first would ignore the second later.
  expect((await reading).quotes.map(({ quoteId }) => quoteId)).toEqual([
    second.quoteId,
    first.quoteId,
  ]);
});

it('inserts the quotes of a batch in a fixed order, so that two processes cannot deadlock', async () => {
  const [first, second] = ['a', 'b'].map((quoteId) =>
    buildUnpaidQuote(OTHER_RECIPIENT, { quoteId }),
  ) as [NewQuote, NewQuote];
  const firstInserted = Promise.withResolvers<void>();
  const batchBlocked = Promise.withResolvers<void>();
  const insertion = transaction(db, async (tx) => {
    await insertQuotes(tx, [first]);
    firstInserted.resolve();
    await batchBlocked.promise;
    return await insertQuotes(tx, [second]);
  });
  await firstInserted.promise;
  // If the batch inserted `second` before it waits for `first`, the transaction would wait for the batch.
  const batch = insertQuotes(db, [second, first]);
  await waitForBlockedStatement(database);
  batchBlocked.resolve();
  expect(await insertion).toEqual([expect.any(Number)]);
  expect(await batch).toEqual([null, null]);
});

it('deletes the data of a user while payments are recorded as collected, which lock quotes by id', async () => {
  const quotes = ['a', 'b'].map((quoteId) => buildUnpaidQuote(LOCKED_RECIPIENT, { quoteId }));
  const [first, second] = await insertQuotes(db, quotes);
  const recorder = createObservationRecorder(db);
  // The later quote is paid first.
  for (const quote of quotes.toReversed()) {
    await recorder.record(quote.mintUrl, [observe(quote, 'PAID')]);
  }
  const lockQuote = 'select 1 from quotes where id = $1 for update';
  const unlock = await lockRows(testDatabase, lockQuote, [first]);
  const deletion = transaction(db, (tx) => deleteUserData(tx, LOCKED_RECIPIENT));
  await waitForBlockedStatement(database);
  await unlock(`select 1 from quotes where id = ${second} for update nowait`);
  expect(await deletion).toMatchObject({ keptQuotes: 2 });
});

it('imports members while payments to several of them are recorded, which lock users by key', async () => {
  const [first = '', second = ''] = [1, 2].map(() => getPublicKey(generateSecretKey())).toSorted();
  await db
    .insertInto('users')
    .values([{ pubkey: first }, { pubkey: second }])
    .execute();
  const lock = (pubkey: string) => `select 1 from users where pubkey = '${pubkey}' for update`;
  const unlock = await lockRows(testDatabase, lock(first), []);
  const terminal = new FakeTerminal(`npub\n${second}\n${first}`);
  const argv = ['member', 'import', '-', '--apply'];
  const importing = runOperatorCommand(database, argv, { terminal });
  await waitForBlockedStatement(database);
  await unlock(`${lock(second)} nowait`);
  expect(await importing).toMatchObject({ exitCode: 0 });
});

function lockUser(pubkey: string) {
  const statement = 'update users set lock_quotes = lock_quotes where pubkey = $1';
  return lockRows(testDatabase, statement, [pubkey]);
}

function observe({ quoteId }: NewQuote, state: ObservedState): SourcedObservation {
  return { quoteId, state, source: 'poll' };
}

async function readStates(quotes: readonly NewQuote[]): Promise<(string | undefined)[]> {
  return await Promise.all(
    quotes.map(async ({ verifyToken }) => (await findQuoteByVerifyToken(db, verifyToken))?.state),
  );
}

async function readSequenceNumbers(pubkey: string): Promise<(number | null)[]> {
  const rows = await database.db
    .selectFrom('quotes')
    .select('paid_seq')
    .where('pubkey', '=', pubkey)
    .where('paid_seq', 'is not', null)
    .orderBy('paid_seq')
    .execute();
  return rows.map(({ paid_seq }) => paid_seq);
}
