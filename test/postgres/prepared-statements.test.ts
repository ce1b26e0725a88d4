import { CompiledQuery, type Kysely, sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { Schema } from '../../src/database/schema.ts';
import { Store } from '../../src/store.ts';
import { useDatabase } from '../helpers/database.ts';

/** What a server keeps of the statements that it is asked. */

/** Far more texts than the service has. */
const MANY = 400;

/** As many as a connection may keep. */
const MAX_KEPT = 300;

/** More often than PostgreSQL plans a statement before it keeps a plan. */
const OFTEN = 20;

const database = useDatabase();
let db: Kysely<Schema>;

beforeAll(() => {
  ({ db } = database);
});

it('a statement that is asked again and again is read once, and soon planned no more', async () => {
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

it('a connection whose statement lost a transaction is not used again', async () => {
  await sql`create table words (id int primary key)`.execute(db);
  const read = (on: Kysely<Schema>) => sql`select * from words where id > ${0}::int`.execute(on);
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

it('a set of any size is asked by one statement', async () => {
  await db.connection().execute(async (connection) => {
    const store = new Store(connection);
    for (let size = 1; size <= 5; size += 1) {
      const ids = Array.from({ length: size }, (_, index) => `of-${size}-${index}`);
      await store.purchases.findByProofs(ids);
      await store.treasury.add(
        ids.map((y) => ({ y, mintUrl: 'https://mint.example', amountSat: 1, proof: 'sealed' })),
      );
    }
    const texts = await keptBy(connection);
    for (const part of ['purchase_proofs', 'treasury_proofs']) {
      expect(texts.filter((text) => text.includes(part))).toHaveLength(1);
    }
  });
});

// The last, since it leaves room for no other statement.
it('texts without end do not fill the memory of the server', async () => {
  await db.connection().execute(async (connection) => {
    for (let text = 0; text < MANY; text += 1) {
      const asked = CompiledQuery.raw(`select $1::int as text_${text}`, [text]);
      const { rows } = await connection.executeQuery(asked);
      expect(rows).toEqual([{ [`text_${text}`]: text }]);
    }
    expect((await keptBy(connection)).length).toBeLessThanOrEqual(MAX_KEPT);
  });
});

async function keptBy(connection: Kysely<Schema>): Promise<string[]> {
  const { rows } = await sql<{ statement: string }>`
    select statement from pg_prepared_statements`.execute(connection);
  return rows.map(({ statement }) => statement);
}
