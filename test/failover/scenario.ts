import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { CheckRecorder } from '../faults/check-recorder.ts';
import {
  CHECKS,
  checkList,
  checkUpdates,
  checkVerifyUrls,
  checkWalletsAreInformed,
  type StormObservations,
  waitUntilListsComplete,
} from '../faults/payments/checks.ts';
import { ExpectedPayments } from '../faults/payments/expected-payments.ts';
import { ListReader } from '../faults/payments/list-reader.ts';
import { WalletSockets } from '../faults/payments/wallet-sockets.ts';
import type { Storm } from '../faults/storm.ts';
import { type FailoverDeployment, waitUntil } from './failover-deployment.ts';
import { Load } from './load.ts';
import { RequestLog } from './request-log.ts';
import { WatermarkReader } from './watermark-reader.ts';

const SCENARIO_CHECKS = {
  ...CHECKS,
  outcomes: 'every response is right, or 503 with Retry-After',
  watermark: 'wallets that only read later payments receive every payment once',
};

/** The fault starts, and the load ends, this many listed payments later. */
const PAYMENTS_AROUND_FAULT = 20;

/** Wallets learn of the last payments within this time, even if a process reopens its LISTEN connection late. */
const MAX_WALLET_DELAY_MS = 30_000;
const CHECK_INTERVAL_MS = 200;

/** The report contains this many problems of each check. */
const MAX_EXAMPLES = 5;

const LATE_PAYMENT_MS = 10_000;

/** What a scenario measured. Times are in milliseconds. */
export interface ScenarioReport {
  problems: { description: string; count: number; examples: string[] }[];
  /** How long the cluster itself had no primary; undefined if the scenario has no failover. */
  failoverMs: number | undefined;
  payerOutageMs: number;
  walletOutageMs: number;
  failedRequests: number;
  /** The time from the first to the last failed request. */
  failureSpanMs: number;
  worstPaymentDelayMs: number;
  replayedUpdates: number;
}

/**
 * Runs payers and wallets while `causeFault` disturbs the deployment. Then checks that nothing was lost, and prints
 * what was measured.
 *
 * @param causeFault resolves when the deployment is complete again. Returns how long the cluster had no primary
 */
export async function runScenario(
  name: string,
  deployment: FailoverDeployment,
  causeFault: () => Promise<number | undefined>,
): Promise<ScenarioReport> {
  const { mints, front } = deployment;
  const replayedBefore = await deployment.countReplayedUpdates();
  const end = new AbortController();
  const checkRecorder = new CheckRecorder(SCENARIO_CHECKS);
  const requestLog = new RequestLog(checkRecorder);
  const storm: Storm = {
    pickOrigin: () => front.origin,
    request: requestLog.request,
    checkRecorder,
    random: new SeededRandom(name),
    signal: end.signal,
    end: () => end.abort(),
    failedInvoiceRequests: 0,
    invoiceWaitsMs: [],
  };
  const expectedPayments = await ExpectedPayments.create(mints, front.origin);
  const listReader = new ListReader(storm, expectedPayments);
  const run: StormObservations = Object.assign(storm, { expectedPayments, listReader });
  const walletSockets = new WalletSockets(run, expectedPayments, listReader);
  const watermarkReaders = expectedPayments.recipients.map(
    (recipient) => new WatermarkReader(run, recipient),
  );
  const load = new Load(run, mints.mintOf(0));

  const stopPayers = new AbortController();
  const stopProbes = new AbortController();
  const probes = [load.payerProbe, load.walletProbe].map((probe) =>
    probe.sendUntilAborted(stopProbes.signal),
  );
  const payers = load.payUntilAborted(stopPayers.signal);
  const wallets = [
    listReader.readUntilAborted(),
    walletSockets.keepConnected(),
    load.readOthersUntilAborted(),
    ...watermarkReaders.map((reader) => reader.readUntilAborted()),
  ];
  try {
    await waitForMoreListedPayments(run);
    const failoverMs = await causeFault();
    await waitForMoreListedPayments(run);
    stopPayers.abort();
    stopProbes.abort();
    await Promise.all([payers, ...probes]);
    await waitUntilListsComplete(run);
    await checkWhenPassing(run, (each) => {
      checkUpdates(each, walletSockets.sessions);
      checkWalletsAreInformed(each, walletSockets);
      for (const reader of watermarkReaders) {
        reader.check(each);
      }
    });
    end.abort();
    await Promise.all(wallets);
    for (const recipient of expectedPayments.recipients) {
      checkList(run, recipient, (await listReader.readAllPages(recipient)) ?? []);
    }
    await checkVerifyUrls(run);
    for (const problem of await deployment.takeProcessProblems()) {
      checkRecorder.addProblem('processes', problem);
    }
    const delaysMs = expectedPayments.payments.map(
      ({ quoteId, paidAtMs }) =>
        (listReader.firstListing(quoteId)?.firstListedAtMs ?? Number.POSITIVE_INFINITY) - paidAtMs,
    );
    const report = {
      problems: checkRecorder
        .results()
        .filter(({ problems }) => problems.length > 0)
        .map(({ description, problems }) => ({
          description,
          count: problems.length,
          examples: problems.slice(0, MAX_EXAMPLES),
        })),
      failoverMs,
      payerOutageMs: load.payerProbe.longestGapMs(),
      walletOutageMs: load.walletProbe.longestGapMs(),
      failedRequests: requestLog.failureCount,
      failureSpanMs: requestLog.failureSpanMs,
      worstPaymentDelayMs: Math.max(...delaysMs),
      replayedUpdates: (await deployment.countReplayedUpdates()) - replayedBefore,
    };
    printTable(name, {
      'failover of the cluster itself': failoverMs === undefined ? '-' : formatSeconds(failoverMs),
      'without service for payers': formatSeconds(report.payerOutageMs),
      'without service for wallets': formatSeconds(report.walletOutageMs),
      ...Object.fromEntries(
        Object.entries(requestLog.counts).map(([outcome, count]) => [
          `requests: ${outcome}`,
          `${count}`,
        ]),
      ),
      'from the first to the last failure': formatSeconds(report.failureSpanMs),
      payments: `${delaysMs.length}`,
      'payments listed after more than 10 s': `${delaysMs.filter((each) => each > LATE_PAYMENT_MS).length}`,
      'worst delay of a payment': formatSeconds(report.worstPaymentDelayMs),
      'worst delay of an update after the listing': formatSeconds(
        findWorstUpdateDelayMs(run, walletSockets),
      ),
      'updates sent again after an interruption': `${report.replayedUpdates}`,
      'sockets opened': `${walletSockets.sessions.length}`,
      'failed checks': `${report.problems.length}`,
    });
    return report;
  } finally {
    for (const controller of [stopPayers, stopProbes, end]) {
      controller.abort();
    }
    await Promise.allSettled([payers, ...probes, ...wallets]);
  }
}

/** Waits until some more payments were both made and listed. */
async function waitForMoreListedPayments({
  expectedPayments,
  listReader,
}: StormObservations): Promise<void> {
  const earlierCount = expectedPayments.payments.length;
  await waitUntil('payments', () => {
    const later = expectedPayments.payments.slice(
      earlierCount,
      earlierCount + PAYMENTS_AROUND_FAULT,
    );
    return (
      later.length === PAYMENTS_AROUND_FAULT &&
      later.every(({ quoteId }) => listReader.firstListing(quoteId) !== undefined)
    );
  });
}

/** Repeats a check until it finds no problem or {@link MAX_WALLET_DELAY_MS} have passed. Records the last problems. */
async function checkWhenPassing(
  run: StormObservations,
  check: (run: StormObservations) => void,
): Promise<void> {
  const deadlineMs = performance.now() + MAX_WALLET_DELAY_MS;
  const hasProblems = () => {
    const checkRecorder = new CheckRecorder(SCENARIO_CHECKS);
    check({ ...run, checkRecorder });
    return checkRecorder.results().some(({ problems }) => problems.length > 0);
  };
  while (hasProblems() && performance.now() < deadlineMs) {
    await delay(CHECK_INTERVAL_MS);
  }
  check(run);
}

/** Returns the longest time from the first listing of a payment to its update on a socket that was open before. */
function findWorstUpdateDelayMs(run: StormObservations, { sessions }: WalletSockets): number {
  const delaysMs = sessions.flatMap(({ recipient, openedAtMs, updateTimesMs }) =>
    run.expectedPayments.paymentsOf(recipient).map(({ quoteId, paidAtMs }) => {
      const [updatedAtMs] = updateTimesMs.get(quoteId) ?? [];
      const listedAtMs = run.listReader.firstListing(quoteId)?.firstListedAtMs;
      return updatedAtMs === undefined || listedAtMs === undefined || openedAtMs > paidAtMs
        ? 0
        : updatedAtMs - listedAtMs;
    }),
  );
  return Math.max(0, ...delaysMs);
}

function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function printTable(title: string, rows: Readonly<Record<string, string>>): void {
  const width = Math.max(...Object.keys(rows).map((label) => label.length)) + 2;
  const lines = Object.entries(rows).map(([label, value]) => `${label.padEnd(width)}${value}`);
  console.log([`=== ${title} ===`, ...lines].join('\n'));
}
