import { CompiledQuery, type Kysely, sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { DatabaseSchema } from '../../src/database/schema.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';

/** Prepared statements on the PostgreSQL server. */

/** Far more statements than the service has. */
const MANY = 400;

/** The most statements that a connection keeps prepared. */
const MAX_KEPT = 300;

/** PostgreSQL switches to a generic plan after fewer executions. */
const OFTEN = 20;

const database = useDatabase();
let db: Kysely<DatabaseSchema>;

beforeAll(() => {
  ({ db } = database);
});

it('parses a repeated statement once, and soon stops planning it', async () => {
  await db.connection().execute(async (connection) => {
    for (let asked = 0; asked < OFTEN; asked += 1) {
      await sql`select ${asked}::int as once_and_again`.execute(connection);
    }
    const { rows } = await sql<{ statement: string; planned: number; kept: number }>`
      select statement, custom_plans as planned, generic_plans as kept from pg_prepared_statements
      where statement like '%as once_and_again'`.execute(connection);
    expect(rows).toEqual([
      {
        statement: 'select $1::int as once_and_again',
        planned: expect.any(Number),
        kept: expect.any(Number),
      },
    ]);
    expect(rows[0]?.kept).toBeGreaterThanOrEqual(OFTEN / 2);
  });
});

it('does not reuse a connection whose statement failed a transaction', async () => {
  await sql`create table words (id int primary key)`.execute(db);
  const read = (on: Kysely<DatabaseSchema>) =>
    sql`select * from words where id > ${0}::int`.execute(on);
  const readTwice = () =>
    db.transaction().execute(async (tx) => {
      await read(tx);
      return await read(tx);
    });
  await readTwice();

  await sql`alter table words add column later text`.execute(db);

  await expect(readTwice()).rejects.toThrow('cached plan must not change result type');
  await expect(readTwice()).resolves.toMatchObject({ rows: [] });
});

it('uses one statement for a set of any size', async () => {
  await db.connection().execute(async (connection) => {
    const store = new Store(connection);
    for (let size = 1; size <= 5; size += 1) {
      const ids = Array.from({ length: size }, (_, index) => `of-${size}-${index}`);
      await store.purchases.findByProofs(ids);
      await store.treasury.addProofs(
        ids.map((y) => ({ y, mintUrl: 'https://mint.example', amountSat: 1, sealed: 'sealed' })),
      );
    }
    const texts = await keptBy(connection);
    for (const part of ['purchase_proofs', 'treasury_proofs']) {
      expect(texts.filter((text) => text.includes(part))).toHaveLength(1);
    }
  });
});

// Last, because it fills the statement cache.
it('bounds the number of statements on the server', async () => {
  await db.connection().execute(async (connection) => {
    for (let text = 0; text < MANY; text += 1) {
      const asked = CompiledQuery.raw(`select $1::int as text_${text}`, [text]);
      const { rows } = await connection.executeQuery(asked);
      expect(rows).toEqual([{ [`text_${text}`]: text }]);
    }
    expect((await keptBy(connection)).length).toBeLessThanOrEqual(MAX_KEPT);
  });
});

async function keptBy(connection: Kysely<DatabaseSchema>): Promise<string[]> {
  const { rows } = await sql<{ statement: string }>`
    select statement from pg_prepared_statements`.execute(connection);
  return rows.map(({ statement }) => statement);
}
