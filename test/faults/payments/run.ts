import { percentile } from '../../../bench/harness/statistics.ts';
import type { ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import { readInvoice } from '../../../src/quotes/bolt11.ts';
import { ask, pause } from '../client.ts';
import {
  askInvoice,
  checkProcesses,
  missingOf,
  openStorm,
  type StormOptions,
  type StormResult,
  seconds,
} from '../storm.ts';
import {
  CHECKS,
  checkList,
  checkTold,
  type Evidence,
  isComplete,
  TOLD_WITHIN_MS,
} from './checks.ts';
import { Lists } from './lists.ts';
import { type Mints, openMints } from './mints.ts';
import { WalletSockets } from './sockets.ts';
import { type HeldInvoice, type Recipient, Truth } from './truth.ts';

/** At a much higher rate, the busiest mint could not create all invoices between its 429s. */
const PAYMENTS_PER_SECOND = 20;

/** The storm lasts at least this long, so that there is time for some kills. */
const SHORTEST_STORM_MS = 30_000;

/** How long a process lives before it is killed; longer in long storms. */
const SHORTEST_LIFE_MS = 1_500;
const LONGEST_LIFE_MS = 13_000;
const LONGEST_LIFE_SHARE = 0.08;

/** Share of the starts that are killed before they finish. */
const KILLED_START_SHARE = 0.25;
const LONGEST_KILLED_START_MS = 2_000;

/** Most processes are back soon; some stay away until their leases have expired. */
const LONGEST_ABSENCE_MS = 2_000;
const LONG_ABSENCE_SHARE = 0.2;
const LONG_ABSENCE_MS = 18_000;

/** One more invoice for each six payments is never paid. */
const PAYMENTS_PER_UNPAID_INVOICE = 6;

const MAX_AMOUNT_SAT = 5_000;

/** The first recipient is paid more often: more than a page of the list, several times a second. */
const RECIPIENT_SKEW = 3;

/** Payments at once come before the watcher has polled. */
const AT_ONCE_SHARE = 0.35;
const LATE_SHARE = 0.2;
const SOON_MS = 8_000;

/** After the invoice of a short-lived quote has expired (`mints.ts`). */
const LATE_FROM_MS = 9_000;
const LATE_UNTIL_MS = 16_000;

const COLLECTED_SHARE = 0.5;
const COLLECTED_WITHIN_MS = 10_000;

/** The kills stop for the last payers, so that open sockets receive their updates. */
const SPARED_SHARE = 0.2;

/** How long the mints keep failing after the last payment. */
const STORM_OUTLASTS_MS = 30_000;

/** Payment to list at p99, while processes are killed. */
const MAX_LISTING_P99_MS = 120_000;

/** How long listing may take after the last payment. */
const SETTLE_DEADLINE_MS = 240_000;
const SETTLE_POLL_MS = 500;

const VERIFIERS = 8;

/** Faults so frequent that the storm is broken if one is missing. */
const SURE_FAULTS = [
  'error',
  'garbage',
  'cutBefore',
  'cutAfter',
  'late',
  'shuffledBatch',
] as const satisfies readonly (keyof ChaosRates)[];

interface Run extends Evidence {
  mints: Mints;
  sockets: WalletSockets;
}

/**
 * Runs the payments storm: payers and wallets use a service whose processes are killed at random moments
 * and whose mints fail all the time. Then checks that nothing was lost, doubled or late.
 *
 * @throws if a process cannot be started again, or the signal aborts
 */
export async function runPaymentStorm(options: StormOptions): Promise<StormResult> {
  const { payments, say } = options;
  await using stack = new AsyncDisposableStack();
  const run = await open(options, stack);
  const { site, mints, truth, lists, sockets, findings } = run;
  const stormMs = Math.max(SHORTEST_STORM_MS, (payments / PAYMENTS_PER_SECOND) * 1000);
  const invoices = payments + Math.ceil(payments / PAYMENTS_PER_UNPAID_INVOICE);

  say(`${payments} payments and ${invoices - payments} unpaid invoices`);
  const background = [lists.keepReading(), sockets.keepOpen()];
  mints.startStorm();
  const killing = new AbortController();
  let left = invoices;
  const payAll = Array.from({ length: invoices }, async (_unused, index) => {
    await pay(run, index + 1, { isPaid: index < payments, stormMs });
    left -= 1;
    if (left <= invoices * SPARED_SHARE) {
      killing.abort();
    }
  });
  await Promise.all([
    keepKilling(run, stormMs * LONGEST_LIFE_SHARE, AbortSignal.any([run.signal, killing.signal])),
    ...payAll,
  ]);

  say(`all paid after ${site.kills} kills; waiting until everything is listed`);
  const paidSinceMs = Date.now();
  await waitUntilComplete(run);
  const settledMs = Date.now() - paidSinceMs;
  // An update of the last payment, or a second listing of it, may still arrive.
  await pause(TOLD_WITHIN_MS, run.signal);
  run.signal.throwIfAborted();

  const updatesDue = checkTold(run, sockets.sessions);
  const sessions = sockets.sessions.length;
  run.end();
  await Promise.all(background);
  for (const recipient of truth.recipients) {
    checkList(run, recipient, (await lists.read(recipient)) ?? []);
  }
  await checkVerifyUrls(run);
  await checkProcesses(run);
  const listingMs = truth.payments.map(
    ({ quoteId, paidAtMs }) => (lists.sighting(quoteId)?.firstSeenAtMs ?? Infinity) - paidAtMs,
  );
  if (percentile(listingMs, 0.99) >= MAX_LISTING_P99_MS) {
    findings.note('listedSoon', `p99 is ${seconds(percentile(listingMs, 0.99))}`);
  }
  for (const missing of missingOf({
    kills: site.kills,
    'socket cuts': mints.socketCuts,
    updates: sockets.updateCount,
    ...Object.fromEntries(SURE_FAULTS.map((kind) => [kind, mints.faultCount(kind)])),
  })) {
    findings.note('storm', missing);
  }
  if (truth.payments.length !== payments) {
    findings.note('storm', `${truth.payments.length} payments instead of ${payments}`);
  }
  const unpaid = truth.invoices.length - truth.payments.length;
  return {
    verdicts: findings.verdicts(),
    counts: {
      payments: `${truth.payments.length}; ${unpaid} unpaid invoices, ${run.retries} retries`,
      'wait for an invoice': spread(run.waitsMs),
      'payment to list': spread(listingMs),
      'last payment to quiet': seconds(settledMs),
      kills: `${site.kills}`,
      'mint faults': `${mints.faultCounts()}; ${mints.socketCuts} sockets cut`,
      wallets: `${sessions} sockets, ${sockets.updateCount} updates, ${updatesDue} due`,
    },
  };
}

async function open(options: StormOptions, stack: AsyncDisposableStack): Promise<Run> {
  const mints = await openMints(`${options.seed}/payments/${options.database}/mints`);
  stack.defer(() => mints.close());
  const defaultMintUrl = mints.of(0).url;
  const parts = { checks: CHECKS, defaultMintUrl };
  const storm = await openStorm('payments', options, stack, parts);
  const truth = await Truth.open(mints, storm.site);
  const lists = new Lists(storm, truth);
  return Object.assign(storm, { mints, truth, lists, sockets: new WalletSockets(storm, truth) });
}

/** Kills processes at random moments and starts them again, until the signal. Then all are up. */
async function keepKilling(
  { site, dice: stormDice }: Run,
  longestLifeMs: number,
  signal: AbortSignal,
): Promise<void> {
  const dice = stormDice.fork('kills');
  const life = () => dice.between(SHORTEST_LIFE_MS, Math.max(LONGEST_LIFE_MS, longestLifeMs));
  while (await pause(life(), signal)) {
    const victim = dice.pick(site.processes);
    await site.kill(victim);
    while (!signal.aborted && dice.happens(KILLED_START_SHARE)) {
      victim.start();
      await pause(dice.between(0, LONGEST_KILLED_START_MS), signal);
      await site.kill(victim);
    }
    const isLong = dice.happens(LONG_ABSENCE_SHARE) && site.processes.length > 1;
    const absenceMs = isLong ? LONG_ABSENCE_MS : dice.between(0, LONGEST_ABSENCE_MS);
    await site.restart(victim, absenceMs, signal);
  }
}

/**
 * One payer, who asks at some time of the storm, and the wallet that collects the payment. Their choices
 * do not depend on the other payers.
 */
async function pay(
  run: Run,
  number: number,
  { isPaid, stormMs }: { isPaid: boolean; stormMs: number },
): Promise<void> {
  const { truth, findings, signal } = run;
  const dice = run.dice.fork(`payment ${number}`);
  const skewed = Math.floor(truth.recipients.length * dice.roll() ** RECIPIENT_SKEW);
  const recipient = truth.recipients[skewed] as Recipient;
  const amountSat = 1 + Math.floor(dice.roll() * MAX_AMOUNT_SAT);
  await pause(dice.between(0, stormMs), signal);
  const path = `/.well-known/lnurlp/${recipient.wallet.npub}?amount=${amountSat * 1000}`;
  const invoice = await askInvoice(run, number, path);
  if (invoice === null) {
    return;
  }
  if (readInvoice(invoice.pr)?.amountMsat !== amountSat * 1000) {
    findings.note('facts', `payment ${number}: the invoice has a different amount`);
  }
  const held: HeldInvoice = {
    number,
    recipient,
    amountSat,
    request: invoice.pr,
    verifyPath: new URL(invoice.verify).pathname,
    payment: null,
  };
  truth.invoices.push(held);
  if (!isPaid || !(await pause(patience(dice), signal))) {
    return;
  }
  try {
    const { quoteId } = truth.pay(held);
    const isCollected = dice.happens(COLLECTED_SHARE);
    if (isCollected && (await pause(dice.between(0, COLLECTED_WITHIN_MS), signal))) {
      await recipient.mint.issue(quoteId);
    }
  } catch {
    findings.note('served', `payment ${number}: the mint does not know its invoice`);
  }
}

/** How long a payer takes to pay, in milliseconds. */
function patience(dice: Dice): number {
  const fate = dice.roll();
  if (fate < AT_ONCE_SHARE) {
    return 0;
  }
  return fate < 1 - LATE_SHARE
    ? dice.between(0, SOON_MS)
    : dice.between(LATE_FROM_MS, LATE_UNTIL_MS);
}

/** Reads the lists until they have every payment, or the deadline has passed. */
async function waitUntilComplete({ mints, truth, lists, signal }: Run): Promise<void> {
  const startedAtMs = Date.now();
  const waiting = new Set(truth.recipients);
  while (waiting.size > 0 && Date.now() - startedAtMs < SETTLE_DEADLINE_MS) {
    if (Date.now() - startedAtMs > STORM_OUTLASTS_MS) {
      mints.endStorm();
    }
    for (const recipient of waiting) {
      const quotes = await lists.read(recipient);
      if (quotes !== null && isComplete(truth, recipient, quotes)) {
        waiting.delete(recipient);
      }
    }
    await pause(SETTLE_POLL_MS, signal);
    signal.throwIfAborted();
  }
}

async function checkVerifyUrls({ truth, site, findings, dice }: Run): Promise<void> {
  const waiting = truth.invoices.values();
  const verifier = async () => {
    for (const { number, verifyPath, request, payment } of waiting) {
      const answer = await ask(findings, site.anyOrigin(dice), verifyPath);
      if (answer?.body.settled !== (payment !== null) || answer.body.pr !== request) {
        findings.note('verify', `payment ${number}: settled is ${answer?.body.settled}`);
      }
    }
  };
  await Promise.all(Array.from({ length: VERIFIERS }, verifier));
}

function spread(timesMs: readonly number[]): string {
  const share = (of: number) => seconds(percentile(timesMs, of));
  return `p50 ${share(0.5)}, p99 ${share(0.99)}, longest ${share(1)}`;
}
