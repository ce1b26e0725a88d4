import { percentile } from '../../../bench/harness/statistics.ts';
import type { ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import {
  describeZeroCounts,
  formatSeconds,
  type ProcessStorm,
  type StormOptions,
  type StormResult,
  startStorm,
  stopAndCheckProcesses,
} from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import {
  CHECKS,
  checkList,
  checkUpdates,
  checkVerifyUrls,
  checkWalletsAreInformed,
  MAX_UPDATE_DELAY_MS,
  type StormObservations,
  waitUntilListsComplete,
} from './checks.ts';
import { ExpectedPayments, type Recipient } from './expected-payments.ts';
import { type FaultyMints, startFaultyMints } from './faulty-mints.ts';
import { ListReader } from './list-reader.ts';
import { issueInvoice, payAndRedeem } from './payer.ts';
import { WalletSockets } from './wallet-sockets.ts';

/** At a much higher rate, the service would pause for 429 responses too often to create all invoices in time. */
const PAYMENTS_PER_SECOND = 20;

/** Long enough for several kills, even if there are few payments. */
const MIN_STORM_MS = 30_000;

/** Time from the restart of a process to the next kill. In long storms, the maximum is a share of the storm. */
const MIN_KILL_INTERVAL_MS = 1_500;
const MAX_KILL_INTERVAL_MS = 13_000;
const MAX_KILL_INTERVAL_SHARE = 0.08;

/** Share of starts after which the storm kills the process again, before or soon after the process is ready. */
const KILLED_START_SHARE = 0.25;
const MAX_KILLED_START_MS = 2_000;

/** Most downtimes are short. A long downtime is long enough for the mint leases of the process to expire. */
const MAX_SHORT_DOWNTIME_MS = 2_000;
const LONG_DOWNTIME_SHARE = 0.2;
const LONG_DOWNTIME_MS = 18_000;

/** For each group of this many payments, one additional invoice stays unpaid. */
const PAYMENTS_PER_UNPAID_INVOICE = 6;

const MAX_AMOUNT_SAT = 5_000;

/** An exponent: higher values favour the first recipients. The first recipient's list must have several pages. */
const RECIPIENT_SKEW = 3;

/** An immediate payment arrives before the watcher polls the mint for the first time. */
const IMMEDIATE_PAYMENT_SHARE = 0.35;
const LATE_PAYMENT_SHARE = 0.2;
const MAX_PROMPT_PAYMENT_DELAY_MS = 8_000;

/** Longer than the shortest expiry of an invoice, which is 8 s (`faulty-mints.ts`). */
const MIN_LATE_PAYMENT_DELAY_MS = 9_000;
const MAX_LATE_PAYMENT_DELAY_MS = 16_000;

const MAX_REDEMPTION_DELAY_MS = 10_000;

/** Kills end when this share of the payers is left, so that some sockets stay open and receive every update. */
const KILL_FREE_SHARE = 0.2;

/** The mints inject faults for this time after the last payment. */
const EXTRA_CHAOS_MS = 30_000;

const MAX_LISTING_P99_MS = 120_000;

/** These faults are frequent. If a fault in this list never happens, the storm is broken. */
const REQUIRED_FAULTS = [
  'error',
  'garbage',
  'cutBefore',
  'cutAfter',
  'late',
  'shuffledBatch',
] as const satisfies readonly (keyof ChaosRates)[];

interface PaymentStormRun extends StormObservations, ProcessStorm {
  mints: FaultyMints;
  walletSockets: WalletSockets;
}

/**
 * Runs the payments storm: payers and wallets use the service while the storm kills its processes at random times
 * and its mints inject faults. Then checks that no payment is lost, duplicated or late.
 */
export async function runPaymentStorm(options: StormOptions): Promise<StormResult> {
  const { paymentCount, logProgress } = options;
  await using stack = new AsyncDisposableStack();
  const run = await startRun(options, stack);
  const { deployment, mints, expectedPayments, listReader, walletSockets, checkRecorder } = run;
  const stormMs = Math.max(MIN_STORM_MS, (paymentCount / PAYMENTS_PER_SECOND) * 1000);
  const invoiceCount = paymentCount + Math.ceil(paymentCount / PAYMENTS_PER_UNPAID_INVOICE);

  logProgress(`${paymentCount} payments and ${invoiceCount - paymentCount} unpaid invoices`);
  const wallets = [listReader.readUntilAborted(), walletSockets.keepConnected()];
  mints.startFaults();
  const stopKilling = new AbortController();
  let remainingPayers = invoiceCount;
  const payers = Array.from({ length: invoiceCount }, async (_unused, index) => {
    await simulatePayer(run, index + 1, { shouldPay: index < paymentCount, stormMs });
    remainingPayers -= 1;
    if (remainingPayers <= invoiceCount * KILL_FREE_SHARE) {
      stopKilling.abort();
    }
  });
  await Promise.all([
    killProcessesRandomly(
      run,
      stormMs * MAX_KILL_INTERVAL_SHARE,
      AbortSignal.any([run.signal, stopKilling.signal]),
    ),
    ...payers,
  ]);

  logProgress(
    `all paid after ${deployment.killCount} kills; waiting until all payments are listed`,
  );
  const allPaidAtMs = Date.now();
  const stopFaults = setTimeout(() => mints.stopFaults(), EXTRA_CHAOS_MS);
  await waitUntilListsComplete(run);
  clearTimeout(stopFaults);
  const remainingListingMs = Date.now() - allPaidAtMs;
  // The last update may still arrive, and the service might wrongly list the last payment twice.
  await sleepUnlessAborted(MAX_UPDATE_DELAY_MS, run.signal);
  run.signal.throwIfAborted();

  const expectedUpdates = checkUpdates(run, walletSockets.sessions);
  checkWalletsAreInformed(run, walletSockets);
  const sessionCount = walletSockets.sessions.length;
  run.end();
  await Promise.all(wallets);
  for (const recipient of expectedPayments.recipients) {
    checkList(run, recipient, (await listReader.readAllPages(recipient)) ?? []);
  }
  await checkVerifyUrls(run);
  await stopAndCheckProcesses(run);
  const listingDelaysMs = expectedPayments.payments.map(
    ({ quoteId, paidAtMs }) =>
      (listReader.firstListing(quoteId)?.firstListedAtMs ?? Infinity) - paidAtMs,
  );
  const p99Ms = percentile(listingDelaysMs, 0.99);
  if (p99Ms >= MAX_LISTING_P99_MS) {
    checkRecorder.addProblem('listedInTime', `p99 is ${formatSeconds(p99Ms)}`);
  }
  for (const missing of describeZeroCounts({
    kills: deployment.killCount,
    'socket cuts': mints.socketCutCount,
    updates: walletSockets.updateCount,
    ...Object.fromEntries(REQUIRED_FAULTS.map((kind) => [kind, mints.faultCount(kind)])),
  })) {
    checkRecorder.addProblem('faults', missing);
  }
  if (expectedPayments.payments.length !== paymentCount) {
    checkRecorder.addProblem(
      'faults',
      `${expectedPayments.payments.length} payments instead of ${paymentCount}`,
    );
  }
  const unpaidInvoices = expectedPayments.invoices.length - expectedPayments.payments.length;
  return {
    checkResults: checkRecorder.results(),
    counts: {
      payments: `${expectedPayments.payments.length}; ${unpaidInvoices} unpaid invoices, ${run.failedInvoiceRequests} failed invoice requests`,
      'wait for an invoice': formatPercentiles(run.invoiceWaitsMs),
      'payment to list': formatPercentiles(listingDelaysMs),
      'last payment to all lists': formatSeconds(remainingListingMs),
      kills: `${deployment.killCount}`,
      'mint faults': `${mints.describeFaultCounts()}; ${mints.socketCutCount} sockets cut`,
      wallets: `${sessionCount} sockets, ${walletSockets.updateCount} updates, ${expectedUpdates} expected`,
    },
  };
}

async function startRun(
  options: StormOptions,
  stack: AsyncDisposableStack,
): Promise<PaymentStormRun> {
  const mints = await startFaultyMints(`${options.seed}/payments/${options.database}/mints`);
  stack.defer(() => mints.close());
  const defaultMintUrl = mints.mintOf(0).url;
  const setup = { checks: CHECKS, defaultMintUrl };
  const storm = await startStorm('payments', options, stack, setup);
  const expectedPayments = await ExpectedPayments.create(mints, storm.pickOrigin(storm.random));
  const listReader = new ListReader(storm, expectedPayments);
  const walletSockets = new WalletSockets(storm, expectedPayments, listReader);
  return Object.assign(storm, { mints, expectedPayments, listReader, walletSockets });
}

async function killProcessesRandomly(
  { deployment, random: stormRandom }: PaymentStormRun,
  maxKillIntervalMs: number,
  signal: AbortSignal,
): Promise<void> {
  const random = stormRandom.fork('kills');
  const chooseKillIntervalMs = () =>
    random.between(MIN_KILL_INTERVAL_MS, Math.max(MAX_KILL_INTERVAL_MS, maxKillIntervalMs));
  while (await sleepUnlessAborted(chooseKillIntervalMs(), signal)) {
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
 * Simulates a payer who requests an invoice at a random time and pays it, and the wallet that redeems the payment.
 * The random choices depend only on the seed and the payer's number, not on other payers.
 */
async function simulatePayer(
  run: PaymentStormRun,
  payerNumber: number,
  { shouldPay, stormMs }: { shouldPay: boolean; stormMs: number },
): Promise<void> {
  const { expectedPayments, signal } = run;
  const random = run.random.fork(`payment ${payerNumber}`);
  const { recipients } = expectedPayments;
  const recipientIndex = Math.floor(recipients.length * random.next() ** RECIPIENT_SKEW);
  const recipient = recipients[recipientIndex] as Recipient;
  const amountSat = 1 + Math.floor(random.next() * MAX_AMOUNT_SAT);
  await sleepUnlessAborted(random.between(0, stormMs), signal);
  const invoice = await issueInvoice(run, payerNumber, recipient, amountSat);
  if (
    invoice !== null &&
    shouldPay &&
    (await sleepUnlessAborted(choosePaymentDelayMs(random), signal))
  ) {
    await payAndRedeem(run, invoice, random, MAX_REDEMPTION_DELAY_MS);
  }
}

/** Returns the delay from the invoice to its payment: immediate, prompt or late. */
function choosePaymentDelayMs(random: SeededRandom): number {
  const choice = random.next();
  if (choice < IMMEDIATE_PAYMENT_SHARE) {
    return 0;
  }
  return choice < 1 - LATE_PAYMENT_SHARE
    ? random.between(0, MAX_PROMPT_PAYMENT_DELAY_MS)
    : random.between(MIN_LATE_PAYMENT_DELAY_MS, MAX_LATE_PAYMENT_DELAY_MS);
}

function formatPercentiles(timesMs: readonly number[]): string {
  const format = (share: number) => formatSeconds(percentile(timesMs, share));
  return `p50 ${format(0.5)}, p99 ${format(0.99)}, max ${format(1)}`;
}
