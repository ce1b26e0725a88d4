import { percentile } from '../../../bench/harness/statistics.ts';
import type { ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { decodeInvoice } from '../../../src/quotes/bolt11.ts';
import {
  describeMissing,
  formatSeconds,
  requestInvoice,
  type StormOptions,
  type StormResult,
  startStorm,
  stopAndCheckProcesses,
} from '../storm.ts';
import { sleepUnlessAborted, tryRequest } from '../storm-client.ts';
import {
  CHECKS,
  checkList,
  checkUpdates,
  isListComplete,
  MAX_UPDATE_DELAY_MS,
  type StormObservations,
} from './checks.ts';
import { ExpectedPayments, type IssuedInvoice, type Recipient } from './expected-payments.ts';
import { type FaultyMints, startFaultyMints } from './faulty-mints.ts';
import { ListReader } from './list-reader.ts';
import { WalletSockets } from './wallet-sockets.ts';

/** At a much higher rate, the busiest mint could not create all invoices between 429 responses. */
const PAYMENTS_PER_SECOND = 20;

/** Long enough for several kills. */
const MIN_STORM_MS = 30_000;

/** Time from the start of a process to its kill. The maximum is higher in long storms. */
const MIN_PROCESS_LIFETIME_MS = 1_500;
const MAX_PROCESS_LIFETIME_MS = 13_000;
const MAX_LIFETIME_STORM_SHARE = 0.08;

/** Share of starts during which the process is killed again. */
const KILLED_START_SHARE = 0.25;
const MAX_KILLED_START_MS = 2_000;

/** Most downtimes are short. In the others, the leases of the process expire. */
const MAX_SHORT_DOWNTIME_MS = 2_000;
const LONG_DOWNTIME_SHARE = 0.2;
const LONG_DOWNTIME_MS = 18_000;

/** For every six payments, one additional invoice stays unpaid. */
const PAYMENTS_PER_UNPAID_INVOICE = 6;

const MAX_AMOUNT_SAT = 5_000;

/** Higher values favour the first recipients. The first one must get more payments than a list page has. */
const RECIPIENT_SKEW = 3;

/** Immediate payments arrive before the watcher polls. */
const IMMEDIATE_PAYMENT_SHARE = 0.35;
const LATE_PAYMENT_SHARE = 0.2;
const MAX_PROMPT_PAYMENT_DELAY_MS = 8_000;

/** Longer than the shortest invoice expiry (`faulty-mints.ts`). */
const MIN_LATE_PAYMENT_DELAY_MS = 9_000;
const MAX_LATE_PAYMENT_DELAY_MS = 16_000;

const ISSUED_SHARE = 0.5;
const MAX_ISSUE_DELAY_MS = 10_000;

/** Share of the payers for which no process is killed, so that open sockets receive their updates. */
const KILL_FREE_SHARE = 0.2;

/** How long the mints inject faults after the last payment. */
const EXTRA_CHAOS_MS = 30_000;

const MAX_LISTING_P99_MS = 120_000;

/** Time for all payments to be listed after the last payment. */
const LISTING_DEADLINE_MS = 240_000;
const LISTING_POLL_INTERVAL_MS = 500;

const CONCURRENT_VERIFIERS = 8;

/** Frequent faults. If one never happened, the storm is broken. */
const REQUIRED_FAULTS = [
  'error',
  'garbage',
  'cutBefore',
  'cutAfter',
  'late',
  'shuffledBatch',
] as const satisfies readonly (keyof ChaosRates)[];

interface PaymentStormRun extends StormObservations {
  mints: FaultyMints;
  walletSockets: WalletSockets;
}

/**
 * Runs the payments storm: payers and wallets use the service while its processes are killed at random
 * times and its mints fail. Then checks that no payment is lost, duplicated or late.
 *
 * @throws Error if a process cannot be restarted, or the signal aborts
 */
export async function runPaymentStorm(options: StormOptions): Promise<StormResult> {
  const { paymentCount, logProgress } = options;
  await using stack = new AsyncDisposableStack();
  const run = await startRun(options, stack);
  const { deployment, mints, expectedPayments, listReader, walletSockets, checkResults } = run;
  const stormMs = Math.max(MIN_STORM_MS, (paymentCount / PAYMENTS_PER_SECOND) * 1000);
  const invoiceCount = paymentCount + Math.ceil(paymentCount / PAYMENTS_PER_UNPAID_INVOICE);

  logProgress(`${paymentCount} payments and ${invoiceCount - paymentCount} unpaid invoices`);
  const background = [listReader.readUntilAborted(), walletSockets.keepConnected()];
  mints.startStorm();
  const killing = new AbortController();
  let remaining = invoiceCount;
  const payAll = Array.from({ length: invoiceCount }, async (_unused, index) => {
    await simulatePayer(run, index + 1, { isPaid: index < paymentCount, stormMs });
    remaining -= 1;
    if (remaining <= invoiceCount * KILL_FREE_SHARE) {
      killing.abort();
    }
  });
  await Promise.all([
    killProcessesRandomly(
      run,
      stormMs * MAX_LIFETIME_STORM_SHARE,
      AbortSignal.any([run.signal, killing.signal]),
    ),
    ...payAll,
  ]);

  logProgress(`all paid after ${deployment.kills} kills; waiting until all payments are listed`);
  const allPaidAtMs = Date.now();
  await waitUntilListsComplete(run);
  const completedMs = Date.now() - allPaidAtMs;
  // The last update, or a wrong second listing of the last payment, may still arrive.
  await sleepUnlessAborted(MAX_UPDATE_DELAY_MS, run.signal);
  run.signal.throwIfAborted();

  const expectedUpdates = checkUpdates(run, walletSockets.sessions);
  const sessions = walletSockets.sessions.length;
  run.end();
  await Promise.all(background);
  for (const recipient of expectedPayments.recipients) {
    checkList(run, recipient, (await listReader.readAllPages(recipient)) ?? []);
  }
  await checkVerifyUrls(run);
  await stopAndCheckProcesses(run);
  const listingMs = expectedPayments.payments.map(
    ({ quoteId, paidAtMs }) =>
      (listReader.firstListing(quoteId)?.firstListedAtMs ?? Infinity) - paidAtMs,
  );
  if (percentile(listingMs, 0.99) >= MAX_LISTING_P99_MS) {
    checkResults.addProblem('listedInTime', `p99 is ${formatSeconds(percentile(listingMs, 0.99))}`);
  }
  for (const missing of describeMissing({
    kills: deployment.kills,
    'socket cuts': mints.socketCuts,
    updates: walletSockets.updateCount,
    ...Object.fromEntries(REQUIRED_FAULTS.map((kind) => [kind, mints.faultCount(kind)])),
  })) {
    checkResults.addProblem('faults', missing);
  }
  if (expectedPayments.payments.length !== paymentCount) {
    checkResults.addProblem(
      'faults',
      `${expectedPayments.payments.length} payments instead of ${paymentCount}`,
    );
  }
  const unpaid = expectedPayments.invoices.length - expectedPayments.payments.length;
  return {
    checkResults: checkResults.results(),
    counts: {
      payments: `${expectedPayments.payments.length}; ${unpaid} unpaid invoices, ${run.retries} retries`,
      'wait for an invoice': formatPercentiles(run.invoiceWaitsMs),
      'payment to list': formatPercentiles(listingMs),
      'time to list the rest': formatSeconds(completedMs),
      kills: `${deployment.kills}`,
      'mint faults': `${mints.describeFaultCounts()}; ${mints.socketCuts} sockets cut`,
      wallets: `${sessions} sockets, ${walletSockets.updateCount} updates, ${expectedUpdates} expected`,
    },
  };
}

async function startRun(
  options: StormOptions,
  stack: AsyncDisposableStack,
): Promise<PaymentStormRun> {
  const mints = await startFaultyMints(`${options.seed}/payments/${options.database}/mints`);
  stack.defer(() => mints.close());
  const defaultMintUrl = mints.of(0).url;
  const parts = { checks: CHECKS, defaultMintUrl };
  const storm = await startStorm('payments', options, stack, parts);
  const expectedPayments = await ExpectedPayments.create(mints, storm.deployment);
  const listReader = new ListReader(storm, expectedPayments);
  const walletSockets = new WalletSockets(storm, expectedPayments);
  return Object.assign(storm, { mints, expectedPayments, listReader, walletSockets });
}

/** Kills and restarts processes at random times until the signal aborts. All processes are up when it resolves. */
async function killProcessesRandomly(
  { deployment, random: stormRandom }: PaymentStormRun,
  maxLifetimeMs: number,
  signal: AbortSignal,
): Promise<void> {
  const random = stormRandom.fork('kills');
  const lifetimeMs = () =>
    random.between(MIN_PROCESS_LIFETIME_MS, Math.max(MAX_PROCESS_LIFETIME_MS, maxLifetimeMs));
  while (await sleepUnlessAborted(lifetimeMs(), signal)) {
    const target = random.pick(deployment.processes);
    await deployment.kill(target);
    while (!signal.aborted && random.chance(KILLED_START_SHARE)) {
      target.start();
      await sleepUnlessAborted(random.between(0, MAX_KILLED_START_MS), signal);
      await deployment.kill(target);
    }
    const isLong = random.chance(LONG_DOWNTIME_SHARE) && deployment.processes.length > 1;
    const downtimeMs = isLong ? LONG_DOWNTIME_MS : random.between(0, MAX_SHORT_DOWNTIME_MS);
    await deployment.restart(target, downtimeMs, signal);
  }
}

/**
 * Simulates a payer, who requests and pays an invoice at a random time, and the wallet that redeems the
 * payment. The random choices do not depend on other payers.
 */
async function simulatePayer(
  run: PaymentStormRun,
  number: number,
  { isPaid, stormMs }: { isPaid: boolean; stormMs: number },
): Promise<void> {
  const { expectedPayments, checkResults, signal } = run;
  const random = run.random.fork(`payment ${number}`);
  const { recipients } = expectedPayments;
  const recipientIndex = Math.floor(recipients.length * random.next() ** RECIPIENT_SKEW);
  const recipient = recipients[recipientIndex] as Recipient;
  const amountSat = 1 + Math.floor(random.next() * MAX_AMOUNT_SAT);
  await sleepUnlessAborted(random.between(0, stormMs), signal);
  const path = `/.well-known/lnurlp/${recipient.wallet.npub}?amount=${amountSat * 1000}`;
  const invoice = await requestInvoice(run, number, path);
  if (invoice === null) {
    return;
  }
  if (decodeInvoice(invoice.pr)?.amountMsat !== amountSat * 1000) {
    checkResults.addProblem('mintState', `payment ${number}: the invoice has a different amount`);
  }
  const issued: IssuedInvoice = {
    number,
    recipient,
    amountSat,
    request: invoice.pr,
    verifyPath: new URL(invoice.verify).pathname,
    payment: null,
  };
  expectedPayments.invoices.push(issued);
  if (!isPaid || !(await sleepUnlessAborted(choosePaymentDelayMs(random), signal))) {
    return;
  }
  try {
    const { quoteId } = expectedPayments.pay(issued);
    const isRedeemed = random.chance(ISSUED_SHARE);
    if (isRedeemed && (await sleepUnlessAborted(random.between(0, MAX_ISSUE_DELAY_MS), signal))) {
      await recipient.mint.markIssued(quoteId);
    }
  } catch {
    checkResults.addProblem('invoices', `payment ${number}: the mint does not know its invoice`);
  }
}

/** Returns how long a payer waits before paying. */
function choosePaymentDelayMs(random: SeededRandom): number {
  const choice = random.next();
  if (choice < IMMEDIATE_PAYMENT_SHARE) {
    return 0;
  }
  return choice < 1 - LATE_PAYMENT_SHARE
    ? random.between(0, MAX_PROMPT_PAYMENT_DELAY_MS)
    : random.between(MIN_LATE_PAYMENT_DELAY_MS, MAX_LATE_PAYMENT_DELAY_MS);
}

/** Reads the lists until they have every payment, or until the deadline. */
async function waitUntilListsComplete({
  mints,
  expectedPayments,
  listReader,
  signal,
}: PaymentStormRun): Promise<void> {
  const startedAtMs = Date.now();
  const incomplete = new Set(expectedPayments.recipients);
  while (incomplete.size > 0 && Date.now() - startedAtMs < LISTING_DEADLINE_MS) {
    if (Date.now() - startedAtMs > EXTRA_CHAOS_MS) {
      mints.endStorm();
    }
    for (const recipient of incomplete) {
      const quotes = await listReader.readAllPages(recipient);
      if (quotes !== null && isListComplete(expectedPayments, recipient, quotes)) {
        incomplete.delete(recipient);
      }
    }
    await sleepUnlessAborted(LISTING_POLL_INTERVAL_MS, signal);
    signal.throwIfAborted();
  }
}

async function checkVerifyUrls({
  expectedPayments,
  deployment,
  checkResults,
  random,
}: PaymentStormRun): Promise<void> {
  const invoices = expectedPayments.invoices.values();
  const verifier = async () => {
    for (const { number, verifyPath, request, payment } of invoices) {
      const response = await tryRequest(checkResults, deployment.anyOrigin(random), verifyPath);
      if (response?.body.settled !== (payment !== null) || response.body.pr !== request) {
        checkResults.addProblem(
          'verify',
          `payment ${number}: settled is ${response?.body.settled}`,
        );
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_VERIFIERS }, verifier));
}

function formatPercentiles(timesMs: readonly number[]): string {
  const at = (share: number) => formatSeconds(percentile(timesMs, share));
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)}`;
}
