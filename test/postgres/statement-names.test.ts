import { sql } from 'kysely';
import { expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What a server keeps of statements is bounded: one text for sets of any size leaves room for the others. */

const MINT = 'https://mint.example';

let database: Database;

useDatabase((opened) => {
  database = opened;
});

it.each([
  [
    'tokens',
    'username_purchase_proofs',
    (store: Store, ys: string[]) => store.purchases.findByProofs(ys),
  ],
  [
    'sets of proofs',
    'treasury_proofs',
    (store: Store, ys: string[]) =>
      store.treasury.add(
        ys.map((y) => ({ y, mintUrl: MINT, keysetId: '00ad', amountSat: 1, proof: 'sealed' })),
        'an-operation',
        0,
      ),
  ],
  [
    'sets of relays',
    'update "relays"',
    (store: Store, urls: string[]) => store.deliveries.release('nobody', urls),
  ],
])('%s of any size are one statement', async (_what, part, call) => {
  await database.db.connection().execute(async (connection) => {
    const store = new Store(connection);
    for (let size = 1; size <= 5; size += 1) {
      await call(
        store,
        Array.from({ length: size }, (_, index) => `of-${size}-${index}`),
      );
    }
    const { rows } = await sql<{ statement: string }>`
      select statement from pg_prepared_statements`.execute(connection);
    expect(rows.filter(({ statement }) => statement.includes(part))).toHaveLength(1);
  });
});
