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

/** What a scenario measured. Times are in milliseconds. */
export interface ScenarioReport {
  /** At most five of each check. */
  problems: string[];
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

  const stop = new AbortController();
  const requests = Promise.all([
    load.probeInvoices(stop.signal),
    load.probeLists(stop.signal),
    load.payUntilAborted(stop.signal),
  ]);
  const wallets = [
    listReader.readUntilAborted(),
    walletSockets.keepConnected(),
    load.readVerifyUrlsUntilAborted(),
    ...watermarkReaders.map((reader) => reader.readUntilAborted()),
  ];
  try {
    await waitForMoreListedPayments(run);
    const failoverMs = await causeFault();
    await waitForMoreListedPayments(run);
    stop.abort();
    const [payerOutageMs, walletOutageMs] = await requests;
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
        .flatMap(({ description, problems }) =>
          problems.slice(0, 5).map((problem) => `${description}: ${problem}`),
        ),
      failoverMs,
      payerOutageMs,
      walletOutageMs,
      failedRequests: requestLog.failureCount,
      failureSpanMs: requestLog.failureSpanMs,
      worstPaymentDelayMs: Math.max(...delaysMs),
      replayedUpdates: (await deployment.countReplayedUpdates()) - replayedBefore,
    };
    console.log(`${name}: ${JSON.stringify(report)}`);
    return report;
  } finally {
    stop.abort();
    end.abort();
    await Promise.allSettled([requests, ...wallets]);
  }
}

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
