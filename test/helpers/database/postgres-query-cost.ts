import {
  CompiledQuery,
  createQueryId,
  type Kysely,
  type KyselyPlugin,
  type RootOperationNode,
} from 'kysely';
import type { DatabaseSchema } from '../../../src/database/schema.ts';
import type { Tx } from '../../../src/database/transaction.ts';

interface QueryCost {
  /** Table rows that PostgreSQL reads, including rows that a filter then removes. */
  rowsRead: number;
  /** Pages of tables and indexes, cached or not. */
  pagesRead: number;
}

type DatabaseCall = (tx: Tx) => Promise<unknown>;

/**
 * Returns the total cost of the queries that `call` executes. Measures generic plans, because PostgreSQL reuses them
 * for prepared statements. Rolls back all changes.
 */
export function measureQueryCost(
  db: Kysely<DatabaseSchema>,
  call: DatabaseCall,
): Promise<QueryCost> {
  return db.connection().execute(async (connection) => {
    const execute = <Row>(sql: string) => connection.executeQuery<Row>(CompiledQuery.raw(sql));
    await execute('begin');
    try {
      // Undo the call's changes, so that EXPLAIN finds the same rows as the call.
      await execute('savepoint before_call');
      const queries = await recordQueries(connection, call);
      await execute('rollback to savepoint before_call');
      await execute('set local plan_cache_mode to force_generic_plan');
      const totalCost = { rowsRead: 0, pagesRead: 0 };
      for (const { sql, parameters } of queries) {
        await execute(`prepare measured as ${sql}`);
        const literals = parameters.map(toLiteral).join(', ');
        const statement = literals === '' ? 'execute measured' : `execute measured (${literals})`;
        const { rows } = await execute<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
          `explain (analyze, buffers, format json) ${statement}`,
        );
        const plan = rows[0]?.['QUERY PLAN'][0].Plan;
        if (plan === undefined) {
          throw new Error('EXPLAIN returned no plan');
        }
        totalCost.rowsRead += countRowsRead(plan);
        totalCost.pagesRead += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
        await execute('deallocate measured');
      }
      return totalCost;
    } finally {
      await execute('rollback');
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
  // `measureQueryCost` has begun a transaction on the connection.
  await call(db.withPlugin(recorder) as Tx);
  return nodes.map((node) => db.getExecutor().compileQuery(node, createQueryId()));
}

/** The EXECUTE statement needs SQL literals as parameters. */
function toLiteral(value: unknown): string {
  if (value === null) {
    return 'null';
  }
  if (Buffer.isBuffer(value)) {
    return `'\\x${value.toString('hex')}'`;
  }
  return `'${String(value).replaceAll("'", "''")}'`;
}

interface PlanNode {
  /** Only nodes that read a table have this property. */
  'Relation Name'?: string;
  /** Counts of rows are averages per loop. */
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: PlanNode[];
}

function countRowsRead(node: PlanNode): number {
  const rowsPerLoop =
    node['Actual Rows'] +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0);
  const ownRows = node['Relation Name'] === undefined ? 0 : rowsPerLoop * node['Actual Loops'];
  return (node.Plans ?? []).reduce((sum, child) => sum + countRowsRead(child), ownRows);
}
