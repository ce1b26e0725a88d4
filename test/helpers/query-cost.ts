import {
  CompiledQuery,
  createQueryId,
  type Kysely,
  type KyselyPlugin,
  type RootOperationNode,
} from 'kysely';
import type { DatabaseSchema } from '../../src/database/schema.ts';

/** Table rows that PostgreSQL reads, including filtered ones, and pages of tables and indexes. */
interface QueryCost {
  rowsRead: number;
  pagesRead: number;
}

type DatabaseCall = (db: Kysely<DatabaseSchema>) => Promise<unknown>;

/**
 * Returns the cost of all queries of a call with the generic plans that a server keeps for prepared
 * statements. Rolls back what the call changed.
 */
export function measureQueryCost(
  db: Kysely<DatabaseSchema>,
  call: DatabaseCall,
): Promise<QueryCost> {
  return db.connection().execute(async (connection) => {
    const run = <Row>(sql: string) => connection.executeQuery<Row>(CompiledQuery.raw(sql));
    await run('begin');
    try {
      // The measured run must find the rows as they were before the call.
      await run('savepoint before');
      const queries = await recordQueries(connection, call);
      await run('rollback to savepoint before');
      await run('set local plan_cache_mode to force_generic_plan');
      const total = { rowsRead: 0, pagesRead: 0 };
      for (const { sql, parameters } of queries) {
        await run(`prepare kept as ${sql}`);
        const values = parameters.map(toLiteral).join(', ');
        const execute = values === '' ? 'execute kept' : `execute kept (${values})`;
        const { rows } = await run<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
          `explain (analyze, buffers, format json) ${execute}`,
        );
        const plan = rows[0]?.['QUERY PLAN'][0].Plan;
        if (plan === undefined) {
          throw new Error('EXPLAIN returned nothing');
        }
        total.rowsRead += countRowsRead(plan);
        total.pagesRead += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
        await run('deallocate kept');
      }
      return total;
    } finally {
      await run('rollback');
    }
  });
}

async function recordQueries(
  db: Kysely<DatabaseSchema>,
  call: DatabaseCall,
): Promise<CompiledQuery[]> {
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

/** `execute` takes its parameters as literals. */
function toLiteral(value: unknown): string {
  if (value === null) {
    return 'null';
  }
  if (Buffer.isBuffer(value)) {
    return `'\\x${value.toString('hex')}'`;
  }
  return `'${String(value).replaceAll("'", "''")}'`;
}

/** The relevant parts of a plan; counts are averages per loop. */
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

function countRowsRead(node: PlanNode): number {
  const ownRows =
    node['Actual Rows'] +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0);
  const own = node['Relation Name'] === undefined ? 0 : ownRows * node['Actual Loops'];
  return (node.Plans ?? []).reduce((sum, child) => sum + countRowsRead(child), own);
}
