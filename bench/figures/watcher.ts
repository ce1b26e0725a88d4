import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { type BenchPostgresDatabase, createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import type { FleetCounts, MintFleet, MintKind } from '../harness/mint-fleet.ts';
import { addOpenQuotes } from '../harness/open-quotes.ts';
import { type BenchProcess, readProcessUsage, startProcess } from '../harness/processes.ts';
import { startNutpost } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const MAX_MB = 300;
const MAX_CORES = 0.25;

/** {@link MintKind} explains the kinds. */
const MINT_COUNTS: Record<MintKind, number> = { fast: 88, plain: 10, slow: 1, dead: 1 };
const QUOTES_PER_MINT = 1_000;

/**
 * After its start, the service subscribes to or polls every quote. At mints without batch checks, this takes minutes.
 */
const WARM_UP_TIMEOUT_MS = 360_000;

/** The service polls each mint at least once a minute, and the measurement must include such a poll. */
const MIN_MEASURED_SECONDS = 60;

/** Payments during the measurement, at mints with a WebSocket (`fast`) and at mints that must be polled (`plain`). */
const PAYMENT_COUNTS = { fast: 200, plain: 20 };

/** How long after the measurement the service may record the last payment. */
const LAST_PAYMENTS_TIMEOUT_MS = 120_000;

/** Selects the newest unpaid quotes of some mints that do not expire within the next ten minutes. */
const SELECT_PAYABLE_QUOTES = `
  select quote_id as "quoteId" from quotes
  where mint_url = any($1) and state = 'UNPAID' and expires_at > extract(epoch from now()) * 1000 + 600000
  order by created_at desc limit $2`;

/** A payment at a mint. Times are in milliseconds since 1970. */
interface Payment {
  kind: keyof typeof PAYMENT_COUNTS;
  quoteId: string;
  paidAtMs: number;
  /** When the service recorded the payment. Null: not yet. */
  recordedAtMs: number | null;
}

/**
 * Measures the watcher with 100,000 open quotes at 100 mints, of which one is dead, one is slow, and ten
 * support neither batches nor WebSockets. The service receives no requests; payments arrive at the mints.
 * Measures once, regardless of `options.runCount`.
 */
export const measureWatcher: Benchmark = async (serverUrl, options) => {
  const kinds = Object.entries(MINT_COUNTS).flatMap(([kind, count]) =>
    Array<string>(count).fill(kind),
  );
  await using fleet = await startProcess<MintFleet>(
    'the mint fleet',
    import.meta.resolve('../harness/mint-fleet.ts'),
    'controlUrl',
    { input: kinds },
  );
  const { mintUrls } = fleet.readyMessage;
  const urlsOf = (kind: MintKind) => mintUrls.filter((_, i) => kinds[i] === kind);
  await using database = await createPostgresDatabase(serverUrl, (db) =>
    addOpenQuotes(db, mintUrls, QUOTES_PER_MINT),
  );

  const startedAtMs = performance.now();
  // The operator names all mints. Those that users chose would share a few polls a second.
  const env = { ZAP_SECRET_KEY: '1'.repeat(64), ZAP_MINTS: mintUrls.join(',') };
  await using service = await startNutpost(urlsOf('fast')[0] ?? '', database, env);
  await waitForWarmUp(fleet);
  const warmUpSeconds = (performance.now() - startedAtMs) / 1000;

  const usageBefore = await readProcessUsage(service);
  const countsBefore = await readCounts(fleet);
  const measuredSeconds = Math.max(options.secondsPerRun, MIN_MEASURED_SECONDS);
  /** Pays quotes of the mints of one kind, spread evenly over the measurement. */
  const payEvenly = async (kind: Payment['kind']) => {
    const values = [urlsOf(kind), PAYMENT_COUNTS[kind]];
    const quotes = await database.query<{ quoteId: string }>(SELECT_PAYABLE_QUOTES, values);
    return Promise.all(
      quotes.map(async ({ quoteId }, i): Promise<Payment> => {
        await delay((i * measuredSeconds * 1000) / quotes.length);
        const paidAtMs = Date.now();
        const { controlUrl } = fleet.readyMessage;
        const response = await request(controlUrl, { method: 'POST', body: quoteId });
        await response.body.dump();
        return { kind, quoteId, paidAtMs, recordedAtMs: null };
      }),
    );
  };
  const [fastPayments, plainPayments] = await Promise.all([
    payEvenly('fast'),
    payEvenly('plain'),
    delay(measuredSeconds * 1000),
  ]);
  const usageAfter = await readProcessUsage(service);
  const countsAfter = await readCounts(fleet);
  const checkedPayments = await waitUntilRecorded(database, [...fastPayments, ...plainPayments]);

  const missedCount = checkedPayments.filter(({ recordedAtMs }) => recordedAtMs === null).length;
  const problems = [
    ...(countsAfter.invalidRequests > 0
      ? [`the mints received ${countsAfter.invalidRequests} invalid requests`]
      : []),
    ...(missedCount > 0
      ? [`${missedCount} of ${checkedPayments.length} payments were not recorded`]
      : []),
  ];
  const perSecond = (count: keyof FleetCounts) =>
    ((countsAfter[count] - countsBefore[count]) / measuredSeconds).toFixed(1);
  const title = `watcher, ${(mintUrls.length * QUOTES_PER_MINT).toLocaleString('en')} open quotes`;
  return [
    {
      title: `${title}: memory`,
      unit: 'MB',
      runs: [{ service: usageAfter.rssMb }],
      bound: { maxValue: MAX_MB },
      notes: [
        `at the end of the measurement; ${usageAfter.peakRssMb.toFixed(0)} MB while all quotes were loaded`,
      ],
      problems,
    },
    {
      title: `${title}: CPU`,
      unit: 'cores',
      runs: [{ service: (usageAfter.cpuMs - usageBefore.cpuMs) / 1000 / measuredSeconds }],
      bound: { maxValue: MAX_CORES },
      notes: [
        `the start took ${(usageBefore.cpuMs / 1000).toFixed(1)} s of CPU time in ${warmUpSeconds.toFixed(0)} s`,
        `per second: ${perSecond('batchChecks')} batch checks, ${perSecond('singleChecks')} single checks`,
        `payments recorded by WebSocket ${describeDelays(checkedPayments, 'fast')}, by polling ${describeDelays(checkedPayments, 'plain')}`,
      ],
    },
  ];
};

/** Waits until the service is connected to every `fast` mint and has polled every quote of the `plain` mints. */
async function waitForWarmUp(fleet: BenchProcess<MintFleet>): Promise<void> {
  const deadlineMs = performance.now() + WARM_UP_TIMEOUT_MS;
  for (;;) {
    const { sockets, singleChecks } = await readCounts(fleet);
    if (sockets >= MINT_COUNTS.fast && singleChecks >= MINT_COUNTS.plain * QUOTES_PER_MINT) {
      return;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(
        `the warm-up timed out with ${sockets} WebSockets and ${singleChecks} single checks`,
      );
    }
    await delay(1_000);
  }
}

async function readCounts(fleet: BenchProcess<MintFleet>): Promise<FleetCounts> {
  const response = await request(fleet.readyMessage.controlUrl);
  return (await response.body.json()) as FleetCounts;
}

/** Waits until all payments are recorded, or until the timeout. Returns the payments with their `recordedAtMs`. */
async function waitUntilRecorded(
  database: BenchPostgresDatabase,
  payments: readonly Payment[],
): Promise<Payment[]> {
  const deadlineMs = performance.now() + LAST_PAYMENTS_TIMEOUT_MS;
  for (;;) {
    const rows = await database.query<{ quoteId: string; recordedAtMs: number }>(
      `select quote_id as "quoteId", paid_at::float8 as "recordedAtMs"
       from quotes where quote_id = any($1) and state = 'PAID'`,
      [payments.map(({ quoteId }) => quoteId)],
    );
    if (rows.length === payments.length || performance.now() > deadlineMs) {
      const recordedAtMsById = new Map(rows.map((row) => [row.quoteId, row.recordedAtMs]));
      return payments.map((payment) => ({
        ...payment,
        recordedAtMs: recordedAtMsById.get(payment.quoteId) ?? null,
      }));
    }
    await delay(1_000);
  }
}

/** Describes the times from the payments at one kind of mint until the service recorded them. */
function describeDelays(payments: readonly Payment[], kind: Payment['kind']): string {
  const delaysMs = payments.flatMap((payment) =>
    payment.kind === kind && payment.recordedAtMs !== null
      ? payment.recordedAtMs - payment.paidAtMs
      : [],
  );
  if (delaysMs.length === 0) {
    return 'never';
  }
  const [p50, p99] = [0.5, 0.99].map((share) => percentile(delaysMs, share).toFixed(0));
  return `after ${p50} ms (p99 ${p99} ms)`;
}
