import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { listPaidQuotes } from '../../src/quotes/paid-list-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  randomPubkey,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';

const database = useTestDatabase();

it('still lists the payments that were listed before the disk of the server was full', async () => {
  const { db } = database;
  const pubkey = randomPubkey();
  let nowMs = 1_800_000_000_000;
  const pay = async () => {
    const quote = buildUnpaidQuote(pubkey);
    await insertQuotes(db, [quote]);
    const { quoteId } = quote;
    await createObservationRecorder(db, { clock: () => nowMs }).record(UNREACHABLE_MINT_URL, [
      { quoteId, state: 'PAID', source: 'poll' },
    ]);
    return quoteId;
  };
  const listIds = async () => {
    const page = { sinceSeconds: null, limit: 50, offset: 0 };
    const { quotes } = await listPaidQuotes(db, pubkey, page, nowMs);
    return quotes.map(({ quoteId }) => quoteId);
  };
  const listedId = await pay();
  expect(await listIds()).toEqual([listedId]);
  nowMs += 5_000;
  const laterId = await pay();

  await sql`create function fail_for_full_disk() returns trigger language plpgsql
    as 'begin raise disk_full; end'`.execute(database.db);
  await sql`create trigger full_disk before update on users
    execute function fail_for_full_disk()`.execute(database.db);
  expect(await listIds()).toEqual([listedId]);

  await sql`drop trigger full_disk on users`.execute(database.db);
  expect(await listIds()).toEqual([laterId, listedId]);
});
