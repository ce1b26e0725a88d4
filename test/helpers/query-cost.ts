import {
  CompiledQuery,
  createQueryId,
  type Kysely,
  type KyselyPlugin,
  type RootOperationNode,
} from 'kysely';
import type { Schema } from '../../src/store/schema.ts';

/** What PostgreSQL reads: rows of tables, filtered ones included, and pages of tables and indexes. */
interface QueryCost {
  rows: number;
  pages: number;
}

type Call = (db: Kysely<Schema>) => Promise<unknown>;

const EXPLAIN = 'explain (analyze, buffers, format json)';

/** Returns the cost of the one query of a call, which is run a second time to measure it. */
export async function costOf(db: Kysely<Schema>, call: Call): Promise<QueryCost> {
  const [query, ...others] = await queriesOf(db, call);
  if (query === undefined || others.length > 0) {
    throw new Error(`made ${query === undefined ? 0 : others.length + 1} queries, not one`);
  }
  return explain(db, `${EXPLAIN} ${query.sql}`, query.parameters);
}

/**
 * Returns the cost of all queries of a call with the generic plans that a server keeps for prepared
 * statements. Rolls back what the call changed.
 */
export function costOfKeptPlan(db: Kysely<Schema>, call: Call): Promise<QueryCost> {
  return db.connection().execute(async (connection) => {
    const run = (sql: string) => connection.executeQuery(CompiledQuery.raw(sql));
    await run('begin');
    try {
      // A row that the call changed may not be there to be changed again.
      await run('savepoint before');
      const queries = await queriesOf(connection, call);
      await run('rollback to savepoint before');
      await run('set local plan_cache_mode to force_generic_plan');
      const total = { rows: 0, pages: 0 };
      for (const { sql, parameters } of queries) {
        await run(`prepare kept as ${sql}`);
        const values = parameters.map(toLiteral).join(', ');
        const { rows, pages } = await explain(connection, `${EXPLAIN} execute kept (${values})`);
        total.rows += rows;
        total.pages += pages;
        await run('deallocate kept');
      }
      return total;
    } finally {
      await run('rollback');
    }
  });
}

async function queriesOf(db: Kysely<Schema>, call: Call): Promise<CompiledQuery[]> {
  const nodes: RootOperationNode[] = [];
  const recorder: KyselyPlugin = {
    transformQuery: ({ node }) => {
      nodes.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  await call(db.withPlugin(recorder));
  return nodes.map((node) => db.getExecutor().compileQuery(node, createQueryId()));
}

async function explain(
  db: Kysely<Schema>,
  sql: string,
  parameters: readonly unknown[] = [],
): Promise<QueryCost> {
  const query = CompiledQuery.raw(sql, [...parameters]);
  const { rows } = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(query);
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  if (plan === undefined) {
    throw new Error('EXPLAIN returned nothing');
  }
  return { rows: rowsOf(plan), pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] };
}

/** `execute` takes its parameters as literals. */
function toLiteral(value: unknown): string {
  const text = value instanceof Date ? value.toISOString() : String(value);
  return `'${text.replaceAll("'", "''")}'`;
}

/** The relevant parts of a plan; counts are averages of the loops. */
interface PlanNode {
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: PlanNode[];
}

function rowsOf(node: PlanNode): number {
  const ownRows =
    node['Actual Rows'] +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0);
  const own = node['Relation Name'] === undefined ? 0 : ownRows * node['Actual Loops'];
  return (node.Plans ?? []).reduce((sum, child) => sum + rowsOf(child), own);
}
