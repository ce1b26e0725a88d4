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

/** Payers come at this rate, and over this time at least, so that there is time for some kills. */
const INVOICES_PER_SECOND = 10;
const SHORTEST_STORM_MS = 30_000;

/** The last payers of a run find processes that live on: there are sockets which must be told. */
const SPARED_SHARE = 0.2;

/**
 * So long the mints go on to fail when the last payment is made: the service has to get by all the
 * same. Then they are well, so that bad luck in a row, each time with a longer rest, is no failure.
 */
const STORM_OUTLASTS_MS = 30_000;

/** How long the service may take when the last payment is made. */
const SETTLE_DEADLINE_MS = 240_000;
const SETTLE_POLL_MS = 500;

/** Of every list, `since` is tried with the times at these places. */
const SINCE_PLACES = [0.1, 0.5];

/** How many verify urls are asked for at a time. */
const VERIFIERS = 8;

/** What a run is to be. */
export interface RunOptions {
  database: DatabaseKind;
  seed: string;
  payments: number;
  /** The data and the logs of the processes go below it. */
  folder: string;
  /** Ends the run before its time; it throws then. */
  signal: AbortSignal;
  say: (line: string) => void;
}

/** What came of a run. */
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
  /** Ends what goes on beside the story. */
  end: AbortController;
}

/**
 * One storm: payers, wallets and an observer on one side, mints where much goes wrong on the other,
 * and between them a service whose processes are killed at random moments. Then all must be right.
 *
 * @throws where a process cannot be started again, or the signal came
 */
export async function runStorm(options: RunOptions): Promise<RunResult> {
  const { payments, say } = options;
  await using stack = new AsyncDisposableStack();
  const run = await prepare(options, stack);
  const { site, mints, truth, observer, sockets, payers, findings, dice, end } = run;
  const stormMs = Math.max(SHORTEST_STORM_MS, (payments / INVOICES_PER_SECOND) * 1000);
  const recipients = truth.recipients.length;
  const plan = planPayments(dice.fork('plan'), { payments, recipients, stormMs });

  const background = [observer.keepReading(end.signal), sockets.keepOpen(dice, end.signal)];
  const killing = new AbortController();
  say(`${payments} payments and ${plan.length - payments} unpaid invoices`);
  mints.startStorm();
  await Promise.all([
    site.keepKilling(dice.fork('kills'), AbortSignal.any([end.signal, killing.signal])),
    payers.run(plan, (left) => {
      if (left <= plan.length * SPARED_SHARE) {
        killing.abort();
      }
    }),
  ]);

  say(`all is paid, after ${site.kills} kills; waiting until it is listed`);
  const paidSinceMs = Date.now();
  await waitUntilComplete(run);
  const settledMs = Date.now() - paidSinceMs;
  // News of the last payment may still be on its way, and so may a second listing of it.
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
  checkStorm(run);
  return { verdicts: findings.verdicts(), counts: countsOf(run, { updatesOwed, settledMs }) };
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

/** Reads the lists until they have everything, or too much time has passed. */
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

/** Holds a recipient's list against the truth, whole and since some of its times. */
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

/** Asks for the verify url of every invoice that a payer got (LUD-21). */
async function checkVerifyUrls({ truth, client, site, findings, dice }: Run): Promise<void> {
  const waiting = truth.invoices.values();
  const verifier = async () => {
    for (const invoice of waiting) {
      const answer = await client.ask(site.anyOrigin(dice), invoice.verifyPath);
      const expected = invoice.payment !== null;
      if (answer?.body.settled !== expected || answer.body.pr !== invoice.request) {
        const said = `settled: ${answer?.body.settled}, and not ${expected}`;
        findings.note('verify', `payment ${invoice.number}: the verify url says ${said}`);
      }
    }
  };
  await Promise.all(Array.from({ length: VERIFIERS }, verifier));
}

async function checkProcesses({ site, findings }: Run): Promise<void> {
  for (const each of site.processes) {
    if (!(await each.stop())) {
      findings.note('processes', `${each.name} did not end in order`);
    }
    for (const complaint of await each.complaints()) {
      findings.note('processes', `${each.name} wrote: ${complaint}`);
    }
  }
}

/** A test without faults would be a test of nothing. */
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
      findings.note('storm', `there were no ${name}`);
    }
  }
  if (truth.payments.length !== payments) {
    findings.note('storm', `${truth.payments.length} payments were made, not ${payments}`);
  }
}

/** What happens so often that its absence means that the test is broken. */
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
  { truth, payers, site, mints, sockets, observer, payments }: Run,
  { updatesOwed, settledMs }: { updatesOwed: number; settledMs: number },
): Record<string, string> {
  const waits = truth.payments.flatMap(({ quoteId, paidAtMs }) => {
    const sighting = observer.sighting(quoteId);
    return sighting === undefined ? [] : [sighting.firstSeenAtMs - paidAtMs];
  });
  const share = (of: number) => seconds(percentile(waits, of));
  return {
    payments: `${payments}, of which ${payers.issued} were collected; ${truth.invoices.length - truth.payments.length} invoices were not paid`,
    invoices: `${payers.refusals} requests refused and ${payers.lostAnswers} not answered, each tried again`,
    processes: `${site.kills} kills, ${site.restarts} restarts`,
    'mint faults': Object.entries(mints.faultCounts)
      .map(([kind, count]) => `${kind} ${count}`)
      .join(', '),
    'mint requests': `${mints.requestCount}, ${mints.socketCuts} sockets cut`,
    wallets: `${sockets.sessions.length} sockets, ${sockets.updateCount} updates, ${updatesOwed} of them owed`,
    'payment to list': `p50 ${share(0.5)}, p99 ${share(0.99)}, longest ${share(1)}`,
    'last payment to quiet': seconds(settledMs),
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
