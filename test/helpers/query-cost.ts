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
  const recorder = new QueryRecorder();
  await call(db.withPlugin(recorder));
  const [query] = recorder.queries;
  if (query === undefined || recorder.queries.length > 1) {
    throw new Error(`made ${recorder.queries.length} queries, not one`);
  }
  const { sql, parameters } = db.getExecutor().compileQuery(query, createQueryId());
  const explained = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    CompiledQuery.raw(`explain (analyze, buffers, format json) ${sql}`, [...parameters]),
  );
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
