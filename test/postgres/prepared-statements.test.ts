import { CompiledQuery, type Kysely, sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { DatabaseSchema } from '../../src/database/schema.ts';
import { hasPaidForName } from '../../src/usernames/purchase-store.ts';
import { addTreasuryProofs } from '../../src/usernames/treasury-store.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';

/** How many statements a connection may keep prepared. The service has far fewer. */
const MAX_PREPARED_STATEMENTS = 300;

/** PostgreSQL switches to a generic plan after fewer executions. */
const EXECUTIONS = 20;

const database = useTestDatabase();
let db: Kysely<DatabaseSchema>;

beforeAll(() => {
  ({ db } = database);
});

it('prepares a repeated statement once, and soon uses a generic plan', async () => {
  await db.connection().execute(async (connection) => {
    for (let execution = 0; execution < EXECUTIONS; execution += 1) {
      await sql`select ${execution}::int as repeated`.execute(connection);
    }
    const { rows } = await sql<{ statement: string; generic_plans: number }>`
      select statement, generic_plans from pg_prepared_statements
      where statement like '%as repeated'`.execute(connection);
    expect(rows).toEqual([
      { statement: 'select $1::int as repeated', generic_plans: expect.any(Number) },
    ]);
    expect(rows[0]?.generic_plans).toBeGreaterThanOrEqual(EXECUTIONS / 2);
  });
});

it('uses the same statement for lists of any length', async () => {
  await db.connection().execute(async (connection) => {
    const db = connection;
    for (let length = 1; length <= 5; length += 1) {
      const ys = Array.from({ length }, (_, index) => `y-${length}-${index}`);
      await hasPaidForName(db, { pubkey: '', name: '', secretHashes: ys });
      await addTreasuryProofs(
        db,
        ys.map((y) => ({
          y,
          mintUrl: 'https://mint.example',
          amountSat: 1,
          expiresAtMs: null,
          sealed: 'sealed',
        })),
      );
    }
    const statements = await listPreparedStatements(connection);
    for (const table of ['purchase_proofs', 'treasury_proofs']) {
      expect(statements.filter((statement) => statement.includes(table))).toHaveLength(1);
    }
  });
});

// Last, because it fills the statement cache.
it('limits the number of prepared statements of a connection', async () => {
  await db.connection().execute(async (connection) => {
    for (let index = 0; index < MAX_PREPARED_STATEMENTS + 100; index += 1) {
      const query = CompiledQuery.raw(`select $1::int as column_${index}`, [index]);
      const { rows } = await connection.executeQuery(query);
      expect(rows).toEqual([{ [`column_${index}`]: index }]);
    }
    const statements = await listPreparedStatements(connection);
    expect(statements.length).toBeLessThanOrEqual(MAX_PREPARED_STATEMENTS);
  });
});

async function listPreparedStatements(connection: Kysely<DatabaseSchema>): Promise<string[]> {
  const { rows } = await sql<{ statement: string }>`
    select statement from pg_prepared_statements`.execute(connection);
  return rows.map(({ statement }) => statement);
}
