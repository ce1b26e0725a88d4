import {
  PaymentTraffic,
  type Recipient,
  startSteadily,
} from '../helpers/traffic/payment-traffic.ts';
import { type FailoverDeployment, waitUntil } from './failover-deployment.ts';
import { RequestLog } from './request-log.ts';

/** The fault starts, and the load ends, this many listed payments later. */
const PAYMENTS_AROUND_FAULT = 20;

/** 20 requests a second measure the time without service with a resolution of 50 ms. */
const PROBE_INTERVAL_MS = 50;

const VERIFY_INTERVAL_MS = 200;

/** What a scenario measured. Times are in milliseconds. */
export interface ScenarioReport {
  /** At most 20. */
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
  const requestLog = new RequestLog();
  const { problems, request: tryRequest } = requestLog;
  const pickOrigin = () => front.origin;
  const traffic = new PaymentTraffic({ seed: name, mints, pickOrigin, problems, tryRequest });
  await traffic.start();
  const recipient = traffic.recipients[0] as Recipient;
  const listPath = '/api/v2/wallet/quotes';
  const end = new AbortController();
  const probes = Promise.all([
    // These invoices stay unpaid, but their quotes must not get lost either.
    measureLongestGap(end.signal, () => traffic.requestInvoice(recipient, 1)),
    measureLongestGap(end.signal, () => {
      const headers = { authorization: recipient.wallet.signRequest(listPath) };
      return tryRequest(front.origin, listPath, { headers });
    }),
    startSteadily(VERIFY_INTERVAL_MS, end.signal, () => checkRandomInvoice(traffic)),
  ]);
  try {
    await waitForMoreListedPayments(traffic);
    const failoverMs = await causeFault();
    await waitForMoreListedPayments(traffic);
    end.abort();
    const [payerOutageMs, walletOutageMs] = await probes;
    await traffic.finish();
    problems.push(...(await deployment.takeProcessProblems()));
    const report = {
      problems: problems.slice(0, 20),
      failoverMs,
      payerOutageMs,
      walletOutageMs,
      failedRequests: requestLog.failureCount,
      failureSpanMs: requestLog.failureSpanMs,
      worstPaymentDelayMs: traffic.worstDelayMs,
      replayedUpdates: (await deployment.countReplayedUpdates()) - replayedBefore,
    };
    console.log(`${name}: ${JSON.stringify(report)}`);
    return report;
  } finally {
    end.abort();
    await Promise.allSettled([probes, traffic.end()]);
  }
}

async function checkRandomInvoice(traffic: PaymentTraffic): Promise<void> {
  const { invoices } = traffic;
  const invoice = invoices[Math.floor(Math.random() * invoices.length)];
  if (invoice !== undefined) {
    await traffic.checkVerifyUrl(invoice);
  }
}

/** Sends requests until the signal aborts. @returns the longest time without a successful one */
async function measureLongestGap(
  signal: AbortSignal,
  send: () => Promise<object | null>,
): Promise<number> {
  const timesMs = [performance.now()];
  await startSteadily(PROBE_INTERVAL_MS, signal, async () => {
    if ((await send()) !== null) {
      timesMs.push(performance.now());
    }
  });
  timesMs.push(performance.now());
  return Math.max(...timesMs.slice(1).map((at, index) => at - (timesMs[index] ?? at)));
}

async function waitForMoreListedPayments(traffic: PaymentTraffic): Promise<void> {
  const startedAtMs = Date.now();
  await waitUntil('payments', () => {
    const listed = traffic.payments.filter(
      ({ recipient, payment }) =>
        payment !== null &&
        payment.paidAtMs > startedAtMs &&
        recipient.listings.has(payment.quoteId),
    );
    return listed.length >= PAYMENTS_AROUND_FAULT;
  });
}
