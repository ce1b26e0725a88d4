import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { type BenchDatabase, createDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import type { FieldCounts, MintField, MintKind } from '../harness/mint-field.ts';
import { type BenchProcess, startProcess, usageOf } from '../harness/processes.ts';
import { startService } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const MAX_MB = 300;
const MAX_CORES = 0.25;

const MINTS: Record<MintKind, number> = { fast: 88, plain: 10, slow: 1, dead: 1 };
const QUOTES_PER_MINT = 1_000;

/** After the start, every quote is subscribed or polled once. Mints without batches take minutes. */
const WARM_UP_TIMEOUT_MS = 360_000;

/** Mints are polled once a minute at least; the window of the measurement must include that. */
const MIN_WINDOW_SECONDS = 60;

/** Payments in the window, at mints that report them and at mints that must be asked. */
const PAYMENTS = { fast: 200, plain: 20 };

/** How long after the window the last payment may be seen. */
const LAST_PAYMENTS_MS = 120_000;

/**
 * Open quotes of 100 mints, evenly spread over the time for which they are watched. One in twenty is
 * paid already and waits for its recipient. Each has a recipient of its own.
 */
const ADD_OPEN_QUOTES = `
  with ages as (
    select url, case when n % 20 = 1 then 'p' else 'u' end || '-' || mint || '-' || n as quote_id,
           n % 20 = 1 as is_paid, n,
           case when n % 3 = 0 then 24 else 1 end * 3600000::bigint as lifetime,
           (n * 0.618034 + mint * 0.01) % 1 as age
    from unnest($1::text[]) with ordinality as mints (url, mint)
    cross join generate_series(0, $2::int - 1) as n
  ), quotes_to_add as (
    select *, md5(quote_id) || md5(url || quote_id) as pubkey,
           (extract(epoch from now()) * 1000
             - age * case when is_paid then 167 * 3600000 else lifetime + 23 * 3600000 end)::bigint
             as created_at
    from ages
  ), recipients as (
    insert into users (pubkey, paid_count, last_paid_at)
    select pubkey, 1, created_at from quotes_to_add where is_paid
  )
  insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                      expires_at, paid_at, paid_seq, watch_until, payment_hash)
  select url, quote_id, pubkey, rpad('lnbc210n1p' || quote_id, 320, 'q'), 21,
         case when is_paid then 'PAID' else 'UNPAID' end, 0, created_at, created_at + lifetime,
         case when is_paid then created_at end, case when is_paid then 1 end,
         created_at + case when is_paid then 168 * 3600000 else lifetime + 24 * 3600000 end,
         pubkey
  from quotes_to_add order by created_at`;

/** Unpaid quotes of some mints that a payer may still pay, as young as possible. */
const PAYABLE = `
  select quote_id as "quoteId" from quotes
  where mint_url = any($1) and state = 'UNPAID' and expires_at > extract(epoch from now()) * 1000 + 600000
  order by created_at desc limit $2`;

/** A payment at a mint; times in milliseconds since 1970. */
interface Payment {
  kind: keyof typeof PAYMENTS;
  quoteId: string;
  paidAtMs: number;
  /** When the service recorded it; null if it has not. */
  seenAtMs: number | null;
}

/**
 * The watcher with 100,000 open quotes at 100 mints: a dead one, a slow one, and ten that must be asked for
 * one quote at a time. The service itself receives no requests; payments arrive at the mints. It is
 * measured once, however many runs are asked for.
 */
export async function measureWatcher(serverUrl: string, effort: Effort): Promise<Row[]> {
  const kinds = Object.entries(MINTS).flatMap(([kind, count]) => Array<string>(count).fill(kind));
  await using field = await startProcess<MintField>(
    'the field of mints',
    import.meta.resolve('../harness/mint-field.ts'),
    'controlUrl',
    { input: kinds },
  );
  const { mintUrls } = field.ready;
  const urlsOf = (kind: MintKind) => mintUrls.filter((_, i) => kinds[i] === kind);
  await using database = await createDatabase(serverUrl, async ({ query }) => {
    await query(ADD_OPEN_QUOTES, [mintUrls, QUOTES_PER_MINT]);
  });

  const startedAtMs = performance.now();
  await using service = await startService(urlsOf('fast')[0] ?? '', database);
  await warmUp(field);
  const warmUpSeconds = (performance.now() - startedAtMs) / 1000;

  const before = await usageOf(service);
  const countsBefore = await readCounts(field);
  const windowSeconds = Math.max(effort.seconds, MIN_WINDOW_SECONDS);
  const [payments] = await Promise.all([
    Promise.all(
      Object.entries(PAYMENTS).map(([kind, count]) =>
        payEvenly(kind as keyof typeof PAYMENTS, urlsOf(kind as MintKind), count),
      ),
    ),
    delay(windowSeconds * 1000),
  ]);
  const after = await usageOf(service);
  const counts = await readCounts(field);
  const seen = await waitUntilSeen(database, payments.flat());

  const unseen = seen.filter(({ seenAtMs }) => seenAtMs === null).length;
  const problems = [
    ...(counts.mistakes > 0 ? [`${counts.mistakes} requests that no mint accepts`] : []),
    ...(unseen > 0 ? [`${unseen} of ${seen.length} payments were not seen`] : []),
  ];
  const perSecond = (count: keyof FieldCounts) =>
    ((counts[count] - countsBefore[count]) / windowSeconds).toFixed(1);
  const title = `watcher, ${(mintUrls.length * QUOTES_PER_MINT).toLocaleString('en')} open quotes`;
  return [
    {
      title: `${title}: memory`,
      unit: 'MB',
      runs: [{ nutpost: after.rssMb }],
      bound: { atMost: MAX_MB },
      notes: [
        `at the end of the window; ${after.peakRssMb.toFixed(0)} MB while all quotes were loaded`,
      ],
      problems,
    },
    {
      title: `${title}: CPU`,
      unit: 'cores',
      runs: [{ nutpost: (after.cpuMs - before.cpuMs) / 1000 / windowSeconds }],
      bound: { atMost: MAX_CORES },
      notes: [
        `the start took ${(before.cpuMs / 1000).toFixed(1)} s of CPU time in ${warmUpSeconds.toFixed(0)} s`,
        `a second: ${perSecond('batches')} batches, ${perSecond('reads')} single reads`,
        `payments seen by WebSocket ${describeDelays(seen, 'fast')}, by polling ${describeDelays(seen, 'plain')}`,
      ],
      problems: [],
    },
  ];

  async function payEvenly(kind: keyof typeof PAYMENTS, urls: string[], count: number) {
    const quotes = await database.query<{ quoteId: string }>(PAYABLE, [urls, count]);
    return Promise.all(
      quotes.map(async ({ quoteId }, i): Promise<Payment> => {
        await delay((i * windowSeconds * 1000) / quotes.length);
        const paidAtMs = Date.now();
        const response = await request(field.ready.controlUrl, { method: 'POST', body: quoteId });
        await response.body.dump();
        return { kind, quoteId, paidAtMs, seenAtMs: null };
      }),
    );
  }
}

/** Waits until fast mints have every subscription and plain mints were asked for every quote. */
async function warmUp(field: BenchProcess<MintField>): Promise<void> {
  const deadlineMs = performance.now() + WARM_UP_TIMEOUT_MS;
  for (;;) {
    const { sockets, reads } = await readCounts(field);
    if (sockets >= MINTS.fast && reads >= MINTS.plain * QUOTES_PER_MINT) {
      return;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`after the start there were ${sockets} WebSockets and ${reads} polls`);
    }
    await delay(1_000);
  }
}

async function readCounts(field: BenchProcess<MintField>): Promise<FieldCounts> {
  const response = await request(field.ready.controlUrl);
  return (await response.body.json()) as FieldCounts;
}

/** Returns the payments with the times at which they were recorded, as soon as all are. */
async function waitUntilSeen(
  database: BenchDatabase,
  payments: readonly Payment[],
): Promise<Payment[]> {
  const deadlineMs = performance.now() + LAST_PAYMENTS_MS;
  for (;;) {
    const rows = await database.query<{ quoteId: string; seenAtMs: number }>(
      `select quote_id as "quoteId", paid_at::float8 as "seenAtMs"
       from quotes where quote_id = any($1) and state = 'PAID'`,
      [payments.map(({ quoteId }) => quoteId)],
    );
    if (rows.length === payments.length || performance.now() > deadlineMs) {
      const seenAtMs = new Map(rows.map((row) => [row.quoteId, row.seenAtMs]));
      return payments.map((payment) => ({
        ...payment,
        seenAtMs: seenAtMs.get(payment.quoteId) ?? null,
      }));
    }
    await delay(1_000);
  }
}

function describeDelays(payments: readonly Payment[], kind: Payment['kind']): string {
  const delaysMs = payments.flatMap((payment) =>
    payment.kind === kind && payment.seenAtMs !== null ? payment.seenAtMs - payment.paidAtMs : [],
  );
  if (delaysMs.length === 0) {
    return 'never';
  }
  const [p50, p99] = [0.5, 0.99].map((share) => percentile(delaysMs, share).toFixed(0));
  return `after ${p50} ms (p99 ${p99} ms)`;
}
