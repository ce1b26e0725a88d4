import {
  CompiledQuery,
  createQueryId,
  type Kysely,
  type KyselyPlugin,
  type RootOperationNode,
} from 'kysely';
import type { Schema } from '../../src/store/schema.ts';

/** What PostgreSQL had to look at for a query. */
export interface QueryCost {
  /** Rows of tables, also those that were read and then left out. */
  rows: number;
  /** Pages of tables and indexes. */
  pages: number;
}

/**
 * What a call of a store costs, as `EXPLAIN ANALYZE` counts it.
 *
 * @param call makes one query, which is made a second time to be counted
 */
export async function costOf(
  db: Kysely<Schema>,
  call: (db: Kysely<Schema>) => Promise<unknown>,
): Promise<QueryCost> {
  const { sql, parameters } = await queryOf(db, call);
  return await explain(db, CompiledQuery.raw(`${EXPLAIN} ${sql}`, [...parameters]));
}

/**
 * The same by the plans that a server keeps for statements: those that are made for any parameters.
 *
 * @param call may make several queries, which are made a second time to be counted; all of it is undone
 */
export function costOfKeptPlan(
  db: Kysely<Schema>,
  call: (db: Kysely<Schema>) => Promise<unknown>,
): Promise<QueryCost> {
  return db.connection().execute(async (connection) => {
    await connection.executeQuery(CompiledQuery.raw('begin'));
    try {
      const total = { rows: 0, pages: 0 };
      // What was changed once may not be there to be changed the second time.
      await connection.executeQuery(CompiledQuery.raw('savepoint before'));
      const queries = await queriesOf(connection, call);
      await connection.executeQuery(CompiledQuery.raw('rollback to savepoint before'));
      for (const query of queries) {
        const { rows, pages } = await explainKept(connection, query);
        total.rows += rows;
        total.pages += pages;
      }
      return total;
    } finally {
      await connection.executeQuery(CompiledQuery.raw('rollback'));
    }
  });
}

const EXPLAIN = 'explain (analyze, buffers, format json)';

async function queryOf(
  db: Kysely<Schema>,
  call: (db: Kysely<Schema>) => Promise<unknown>,
): Promise<CompiledQuery> {
  const [query, ...others] = await queriesOf(db, call);
  if (query === undefined || others.length > 0) {
    throw new Error(`made ${query === undefined ? 0 : others.length + 1} queries, not one`);
  }
  return query;
}

async function queriesOf(
  db: Kysely<Schema>,
  call: (db: Kysely<Schema>) => Promise<unknown>,
): Promise<CompiledQuery[]> {
  const recorder = new QueryRecorder();
  await call(db.withPlugin(recorder));
  return recorder.queries.map((query) => db.getExecutor().compileQuery(query, createQueryId()));
}

/** In a transaction. */
async function explainKept(
  connection: Kysely<Schema>,
  { sql, parameters }: CompiledQuery,
): Promise<QueryCost> {
  const values = parameters.map(toLiteral).join(', ');
  await connection.executeQuery(CompiledQuery.raw(`prepare kept as ${sql}`));
  await connection.executeQuery(
    CompiledQuery.raw('set local plan_cache_mode to force_generic_plan'),
  );
  const cost = await explain(connection, CompiledQuery.raw(`${EXPLAIN} execute kept (${values})`));
  await connection.executeQuery(CompiledQuery.raw('deallocate kept'));
  return cost;
}

async function explain(db: Kysely<Schema>, query: CompiledQuery): Promise<QueryCost> {
  const explained = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(query);
  const [answer] = explained.rows;
  if (answer === undefined) {
    throw new Error('EXPLAIN answered nothing');
  }
  const plan = answer['QUERY PLAN'][0].Plan;
  return {
    rows: rowsOf(plan),
    pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
  };
}

/** A statement that is executed by its name takes no parameters of the protocol. */
function toLiteral(value: unknown): string {
  const text = value instanceof Date ? value.toISOString() : String(value);
  return `'${text.replaceAll("'", "''")}'`;
}

/** The parts of a plan that are looked at here; counts are averages of the loops. */
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

class QueryRecorder implements KyselyPlugin {
  readonly queries: RootOperationNode[] = [];

  transformQuery({ node }: { node: RootOperationNode }): RootOperationNode {
    this.queries.push(node);
    return node;
  }

  async transformResult<Result>({ result }: { result: Result }): Promise<Result> {
    return result;
  }
}
