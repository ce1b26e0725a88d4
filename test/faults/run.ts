import path from 'node:path';
import { percentile } from '../../bench/harness/statistics.ts';
import type { ChaosRates } from '../../src/demo/test-mint/chaos.ts';
import { Dice } from '../../src/demo/test-mint/dice.ts';
import {
  checkList,
  checkSince,
  checkTold,
  type Evidence,
  isComplete,
  TOLD_WITHIN_MS,
} from './checks.ts';
import { Client, pause } from './client.ts';
import { CHECKS, Findings, type Verdict } from './findings.ts';
import { ListReader } from './list-reader.ts';
import { Mints } from './mints.ts';
import { Observer } from './observer.ts';
import { Payers } from './payers.ts';
import { planPayments } from './plan.ts';
import { settleIn } from './recipients.ts';
import { type DatabaseKind, Site } from './site.ts';
import { type Recipient, Truth } from './truth.ts';
import { WalletSockets } from './wallet-sockets.ts';

/** At a much higher rate, the busiest mint could not create all invoices between its 429s (`mints.ts`). */
const PAYMENTS_PER_SECOND = 20;

/** The storm lasts at least this long, so that there is time for some kills. */
const SHORTEST_STORM_MS = 30_000;

/** Long storms kill more rarely: a process lives for at most this share of the storm. */
const LONGEST_LIFE_SHARE = 0.08;

/** The kills stop for the last payers, so that open sockets receive their updates. */
const SPARED_SHARE = 0.2;

/**
 * The mints keep failing for this long after the last payment. Then they recover, so that several
 * faults in a row do not fail the run.
 */
const STORM_OUTLASTS_MS = 30_000;

/** Payment to list at p99, while processes are killed. */
const MAX_LISTING_P99_MS = 120_000;

/** How long listing may take after the last payment. */
const SETTLE_DEADLINE_MS = 240_000;
const SETTLE_POLL_MS = 500;

/** `since` is tested with the times at these positions of each list. */
const SINCE_PLACES = [0.1, 0.5];

/** Concurrent requests for verify URLs. */
const VERIFIERS = 8;

/** The options of a run. */
export interface RunOptions {
  database: DatabaseKind;
  seed: string;
  payments: number;
  /** Holds the data and logs of the processes. */
  folder: string;
  /** Ends the run early; it then throws. */
  signal: AbortSignal;
  say: (line: string) => void;
}

/** The result of a run. */
export interface RunResult {
  verdicts: readonly Verdict[];
  /** Everything that was counted, by name. */
  counts: Record<string, string>;
}

/** The parts of a run. */
interface Run extends Evidence {
  payments: number;
  site: Site;
  mints: Mints;
  client: Client;
  lists: ListReader;
  sockets: WalletSockets;
  payers: Payers;
  dice: Dice;
  /** Ends the background work. */
  end: AbortController;
}

/**
 * Runs the payments storm: payers, wallets and an observer use a service whose processes are killed at
 * random moments and whose mints fail all the time. Then checks that nothing was lost or late.
 *
 * @throws if a process cannot be started again, or the signal aborts
 */
export async function runStorm(options: RunOptions): Promise<RunResult> {
  const { payments, say } = options;
  await using stack = new AsyncDisposableStack();
  const run = await prepare(options, stack);
  const { site, mints, truth, observer, sockets, payers, findings, dice, end } = run;
  const stormMs = Math.max(SHORTEST_STORM_MS, (payments / PAYMENTS_PER_SECOND) * 1000);
  const recipients = truth.recipients.length;
  const plan = planPayments(dice.fork('plan'), { payments, recipients, stormMs });

  const background = [observer.keepReading(end.signal), sockets.keepOpen(dice, end.signal)];
  const killing = new AbortController();
  say(`${payments} payments and ${plan.length - payments} unpaid invoices`);
  mints.startStorm();
  await Promise.all([
    site.keepKilling(
      dice.fork('kills'),
      stormMs * LONGEST_LIFE_SHARE,
      AbortSignal.any([end.signal, killing.signal]),
    ),
    payers.run(plan, (left) => {
      if (left <= plan.length * SPARED_SHARE) {
        killing.abort();
      }
    }),
  ]);

  say(`all paid after ${site.kills} kills; waiting until everything is listed`);
  const paidSinceMs = Date.now();
  await waitUntilComplete(run);
  const settledMs = Date.now() - paidSinceMs;
  // An update of the last payment, or a second listing of it, may still be on its way.
  await pause(TOLD_WITHIN_MS, end.signal);
  end.signal.throwIfAborted();

  const updatesOwed = checkTold(run, sockets.sessions);
  end.abort();
  await Promise.all(background);
  for (const recipient of truth.recipients) {
    await checkRecipient(run, recipient);
  }
  await checkVerifyUrls(run);
  await checkProcesses(run);
  const listingMs = listingTimes(run);
  checkListingTimes(run, listingMs);
  checkStorm(run);
  return {
    verdicts: findings.verdicts(),
    counts: countsOf(run, { updatesOwed, settledMs, listingMs }),
  };
}

async function prepare(
  { database, seed, folder, payments, signal }: RunOptions,
  stack: AsyncDisposableStack,
): Promise<Run> {
  const end = new AbortController();
  signal.addEventListener('abort', () => end.abort(signal.reason));
  const dice = new Dice(`${seed}/${database}`);
  const findings = new Findings(CHECKS);
  const mints = await Mints.open(`${seed}/${database}/mints`);
  stack.defer(() => mints.close());
  const site = await Site.open({
    database,
    folder: path.join(folder, database),
    defaultMintUrl: mints.default.mint.url,
    onDeath: (description) => findings.note('processes', description),
  });
  stack.use(site);
  stack.defer(() => end.abort());
  const truth = new Truth(mints, await settleIn(site, mints));
  const client = new Client(findings);
  const lists = new ListReader(client, site, dice.fork('lists'));
  const observer = new Observer(truth, lists, findings);
  const onUpdate = (recipient: Recipient) => observer.hurry(recipient);
  const sockets = new WalletSockets({ site, truth, findings, onUpdate });
  const payers = new Payers({ site, truth, client, findings, dice, signal: end.signal });
  return {
    payments,
    site,
    mints,
    truth,
    client,
    lists,
    observer,
    sockets,
    payers,
    findings,
    dice,
    end,
  };
}

/** Reads the lists until they have every payment, or the deadline has passed. */
async function waitUntilComplete({ mints, truth, lists, observer, end }: Run): Promise<void> {
  const startedAtMs = Date.now();
  const waiting = new Set(truth.recipients);
  while (waiting.size > 0 && Date.now() - startedAtMs < SETTLE_DEADLINE_MS) {
    if (Date.now() - startedAtMs > STORM_OUTLASTS_MS) {
      mints.endStorm();
    }
    for (const recipient of waiting) {
      const pages = await lists.all(recipient);
      for (const page of pages ?? []) {
        observer.judge(recipient, page);
      }
      if (pages !== null && isComplete(truth, recipient, pages)) {
        waiting.delete(recipient);
      }
    }
    if (!(await pause(SETTLE_POLL_MS, end.signal))) {
      return;
    }
  }
}

/** Compares a recipient's list, whole and since some of its times, with what was paid. */
async function checkRecipient(run: Run, recipient: Recipient): Promise<void> {
  const { lists, findings } = run;
  const pages = await lists.all(recipient);
  if (pages === null) {
    findings.note('listedOnce', `the list of recipient ${recipient.index} cannot be read`);
    return;
  }
  checkList(run, recipient, pages);
  const quotes = pages.flatMap((page) => page.quotes);
  for (const place of SINCE_PLACES) {
    const since = quotes[Math.floor(quotes.length * place)]?.paidAt;
    const later = since === undefined ? null : await lists.all(recipient, since);
    if (since !== undefined && later !== null) {
      checkSince(findings, recipient, pages, since, later);
    }
  }
}

/** Reads the verify URL of every invoice that a payer got (LUD-21). */
async function checkVerifyUrls({ truth, client, site, findings, dice }: Run): Promise<void> {
  const waiting = truth.invoices.values();
  const verifier = async () => {
    for (const invoice of waiting) {
      const answer = await client.ask(site.anyOrigin(dice), invoice.verifyPath);
      const expected = invoice.payment !== null;
      if (answer?.body.settled !== expected || answer.body.pr !== invoice.request) {
        const settled = `settled: ${answer?.body.settled} instead of ${expected}`;
        findings.note('verify', `payment ${invoice.number}: the verify URL has ${settled}`);
      }
    }
  };
  await Promise.all(Array.from({ length: VERIFIERS }, verifier));
}

async function checkProcesses({ site, findings }: Run): Promise<void> {
  for (const each of site.processes) {
    if (!(await each.stop())) {
      findings.note('processes', `${each.name} did not shut down cleanly`);
    }
    for (const complaint of await each.complaints()) {
      findings.note('processes', `${each.name} logged: ${complaint}`);
    }
  }
}

/** From payment to list of every payment, in milliseconds; infinite if it was never listed. */
function listingTimes({ truth, observer }: Run): number[] {
  return truth.payments.map(
    ({ quoteId, paidAtMs }) =>
      (observer.sighting(quoteId)?.firstSeenAtMs ?? Number.POSITIVE_INFINITY) - paidAtMs,
  );
}

function checkListingTimes({ findings }: Run, listingMs: readonly number[]): void {
  const p99Ms = percentile(listingMs, 0.99);
  if (p99Ms >= MAX_LISTING_P99_MS) {
    findings.note('listedSoon', `p99 is ${seconds(p99Ms)}`);
  }
}

/** Checks that the faults happened. Without them the storm would prove nothing. */
function checkStorm({ site, mints, truth, sockets, payments, findings }: Run): void {
  const { faultCounts } = mints;
  const happened: Record<string, number> = {
    kills: site.kills,
    'socket cuts': mints.socketCuts,
    updates: sockets.updateCount,
    ...Object.fromEntries(SURE_FAULTS.map((kind) => [kind, faultCounts[kind]])),
  };
  for (const [name, count] of Object.entries(happened)) {
    if (count === 0) {
      findings.note('storm', `no ${name}`);
    }
  }
  if (truth.payments.length !== payments) {
    findings.note('storm', `${truth.payments.length} payments instead of ${payments}`);
  }
}

/** Faults so frequent that the test is broken if one is missing. */
const SURE_FAULTS = [
  'error',
  'garbage',
  'cutBefore',
  'cutAfter',
  'silence',
  'rateLimit',
  'late',
  'shuffledBatch',
] as const satisfies readonly (keyof ChaosRates)[];

function countsOf(
  { truth, payers, site, mints, sockets }: Run,
  sums: { updatesOwed: number; settledMs: number; listingMs: readonly number[] },
): Record<string, string> {
  const unpaid = truth.invoices.length - truth.payments.length;
  return {
    payments: `${truth.payments.length}, ${payers.issued} of them collected; ${unpaid} unpaid invoices`,
    'failed requests': `${payers.refusals} for an invoice refused, ${payers.lostAnswers} not answered`,
    'wait for an invoice': spread(payers.waitsMs),
    'payment to list': spread(sums.listingMs),
    'last payment to quiet': seconds(sums.settledMs),
    processes: `${site.kills} kills, ${site.restarts} restarts`,
    'mint faults': Object.entries(mints.faultCounts)
      .map(([kind, count]) => `${kind} ${count}`)
      .join(', '),
    'mint requests': `${mints.requestCount}, ${mints.socketCuts} sockets cut`,
    wallets: `${sockets.sessions.length} sockets, ${sockets.updateCount} updates, ${sums.updatesOwed} required`,
  };
}

function spread(waitsMs: readonly number[]): string {
  const share = (of: number) => seconds(percentile(waitsMs, of));
  return `p50 ${share(0.5)}, p99 ${share(0.99)}, longest ${share(1)}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
