import { sql } from 'kysely';
import type { Database } from '../src/store/database.ts';
import { compare, type Pair } from './harness/compare.ts';
import type { DatabaseHost } from './harness/database.ts';
import { type ComparedRow, type Figure, runsOfTheUnsteady } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { median } from './harness/statistics.ts';
import type { ObservationPlan, ObservationResult } from './processes/observations.ts';

/** As many as a mint is asked about at a time (NUT-29), each of another recipient. */
const BATCH = 1_000;

/** About as many as are recorded in a second. */
const BATCHES_PER_SECOND = 10;

/** In which hot code gets compiled, unmeasured: a service is warm for days. */
const WARM_UPS = 3 * BATCHES_PER_SECOND;

const MINT_URL = 'https://mint.example';

/** One run of one side. */
type Run = {
  /** Observations in a second. */
  value: number;
  /** Of the process, without its database. */
  cpuPerBatchMs: number;
  /** Quotes that are not as they have to be afterwards. */
  wrong: number;
};

const OURS = import.meta.resolve('./processes/observations.ts');
const FLOOR = import.meta.resolve('./processes/floor-observations.ts');

/**
 * Payments that a mint reports in full batches, recorded one batch after another, each payment of another
 * recipient. Floor: one update for each batch, without locks, history, counters or notifications. Both wait
 * for their commits to be synced.
 */
export const observations: Figure = {
  async measure(databases, effort) {
    const batches = WARM_UPS + BATCHES_PER_SECOND * effort.seconds;
    const runs: Pair<Run>[] = [];
    for (let run = 0; run < runsOfTheUnsteady(effort); run += 1) {
      runs.push({
        ours: await record(databases, OURS, batches),
        floor: await record(databases, FLOOR, batches),
      });
    }
    return [toRow(runs)];
  },
};

function toRow(runs: readonly Pair<Run>[]): ComparedRow {
  const cpuMs = (side: 'ours' | 'floor') =>
    median(runs.map((run) => run[side].cpuPerBatchMs)).toFixed(1);
  const wrong = (side: 'ours' | 'floor') =>
    runs.flatMap((run) => (run[side].wrong > 0 ? [`${side}: ${run[side].wrong} wrong`] : []));
  return compare(
    {
      title: `payments recorded, in batches of ${BATCH.toLocaleString('en')}`,
      unit: '/s',
      toReach: null,
      notes: [
        `${runs.length} runs of each; CPU of the process for each batch: ${cpuMs('ours')} ms, floor ${cpuMs('floor')} ms`,
      ],
      problems: [...wrong('ours'), ...wrong('floor')],
    },
    runs,
  );
}

async function record(databases: DatabaseHost, program: string, batches: number): Promise<Run> {
  await using database = await databases.create();
  await database.prepare((db) => addUnpaid(db, batches));
  const plan: ObservationPlan = {
    mintUrl: MINT_URL,
    batches: Array.from({ length: batches }, (_, batch) =>
      Array.from({ length: BATCH }, (_, index) => quoteIdOf(batch * BATCH + index)),
    ),
    warmUps: WARM_UPS,
  };
  const options = { env: database.env, input: plan };
  const { seconds, cpuMs } = await measure(program, options);
  let wrong = batches * BATCH;
  await database.prepare(async (db) => {
    wrong -= await countPaid(db);
  });
  const measured = batches - WARM_UPS;
  return { value: (measured * BATCH) / seconds, cpuPerBatchMs: cpuMs / measured, wrong };
}

async function measure(
  program: string,
  options: { env: Record<string, string>; input: ObservationPlan },
): Promise<ObservationResult> {
  await using recording = new NodeProcess('what records observations', program, options);
  return await recording.next<ObservationResult>(options.input.batches.length * 1_000);
}

function quoteIdOf(recipient: number): string {
  return String(recipient).padStart(36, '0');
}

/** Keys come in no order: those of a batch are on many pages of each index. */
function keyOf(column: string) {
  return sql`encode(sha256(('key ' || ${sql.ref(column)})::bytea), 'hex')`;
}

/** One quote of each recipient. */
async function addUnpaid(db: Database['db'], batches: number): Promise<void> {
  await sql`
    insert into users (pubkey)
    select ${keyOf('recipient')}
    from generate_series(0, ${batches * BATCH - 1}::int) as recipient`.execute(db);
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, payment_hash, amount_sat, state, locked,
                        created_at, expires_at, verify_token, watch_until)
    select ${MINT_URL}, lpad(recipient::text, 36, '0'), ${keyOf('recipient')},
           rpad('lnbc210n1', 300, md5(recipient::text)),
           encode(sha256(recipient::text::bytea), 'hex'), 21, 'UNPAID', false,
           now(), now() + interval '1 h', gen_random_uuid(), now() + interval '25 h'
    from generate_series(0, ${batches * BATCH - 1}::int) as recipient`.execute(db);
  await sql`analyze`.execute(db);
}

/** Of quotes that are paid, each its recipient's first payment. */
async function countPaid(db: Database['db']): Promise<number> {
  const { rows } = await sql<{ right: number }>`
    select count(*)::int as "right" from quotes
    where state = 'PAID' and paid_seq = 1`.execute(db);
  return rows[0]?.right ?? 0;
}
