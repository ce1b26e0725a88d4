import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { PatroniNode } from '../../scripts/patroni-node.ts';
import { eventually } from '../helpers/eventually.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  type FailoverDeployment,
  startFailoverDeployment,
  waitUntil,
} from './failover-deployment.ts';
import { runScenario, type ScenarioReport } from './scenario.ts';

/** Disturbs a cluster of PostgreSQL servers and three processes of the service while payers and wallets use them. */

/** Service returns at most this much later than the cluster accepts writes again. */
const MAX_EXTRA_OUTAGE_MS = 5_000;

/** A switchover interrupts only the connections. Most of this time is for a busy machine. */
const MAX_EXTRA_SWITCHOVER_OUTAGE_MS = 3_000;

/** After a failover, the mints have to report the payments again. */
const MAX_EXTRA_PAYMENT_DELAY_MS = 10_000;

/** The mint leases of a process that was killed or cut off expire after 15 s. Other processes then have to take over. */
const MAX_TAKEOVER_MS = 30_000;

/** Clients repeat the few requests that a killed process was responding to. */
const MAX_REQUESTS_OF_KILLED_PROCESS = 20;

/** The front proxy notices a process without database within about 7 s, and its last requests wait for 10 s more. */
const MAX_CUT_FAILURES_MS = 20_000;

/** Longer than the service waits for a database that does not respond. */
const NETWORK_CUT_MS = 15_000;

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const stack = new AsyncDisposableStack();
let deployment: FailoverDeployment;

beforeAll(async () => {
  deployment = await startFailoverDeployment(stack, 'synchronous');
});

afterAll(() => stack.disposeAsync());

it('loses nothing if the primary is killed', async () => {
  const report = await runScenario('kill of the primary', deployment, () =>
    measureFailover(async (primary) => {
      await primary.kill();
      await deployment.cluster.waitForOtherPrimary(primary);
      // It becomes the standby.
      primary.start();
    }),
  );
  expectShortOutage(report, MAX_EXTRA_OUTAGE_MS);
});

it('loses nothing during an orderly switchover', async () => {
  const { cluster } = deployment;
  const report = await runScenario('switchover', deployment, () =>
    measureFailover(() => cluster.startSwitchover()),
  );
  expectShortOutage(report, MAX_EXTRA_SWITCHOVER_OUTAGE_MS);
});

it('loses nothing if a process cannot reach the database', async () => {
  const { isolatedProxy, isolatedProcess, processes } = deployment;
  const report = await runScenario('network cut', deployment, async () => {
    isolatedProxy.pause();
    await waitUntil('readiness to fail', async () => !(await isReady(isolatedProcess.origin)));
    await deployment.waitForServers(processes.length - 1);
    await delay(NETWORK_CUT_MS);
    isolatedProxy.resume();
    await deployment.waitForServers(processes.length);
  });
  expect(report.problems).toEqual([]);
  expect(report.failureSpanMs).toBeLessThan(MAX_CUT_FAILURES_MS);
  expect(report.payerOutageMs).toBeLessThan(MAX_EXTRA_OUTAGE_MS);
  expect(report.walletOutageMs).toBeLessThan(MAX_EXTRA_OUTAGE_MS);
  expect(report.worstPaymentDelayMs).toBeLessThan(MAX_TAKEOVER_MS);
  expect(report.replayedUpdates).toBeGreaterThan(0);
});

it('loses nothing if a process is killed', async () => {
  const { processes } = deployment;
  const [killed] = processes;
  const report = await runScenario('kill of a process', deployment, async () => {
    await killed?.kill();
    await deployment.waitForServers(processes.length - 1);
    killed?.start();
    await deployment.waitForServers(processes.length);
  });
  expect(report.problems).toEqual([]);
  expect(report.failedRequests).toBeLessThan(MAX_REQUESTS_OF_KILLED_PROCESS);
  expect(report.worstPaymentDelayMs).toBeLessThan(MAX_TAKEOVER_MS);
});

it('fails no request during a rolling restart', async () => {
  const { processes } = deployment;
  const report = await runScenario('rolling restart', deployment, async () => {
    for (const each of processes) {
      expect(await each.stop()).toBe(true);
      await deployment.waitForServers(processes.length - 1);
      each.start();
      await deployment.waitForServers(processes.length);
    }
  });
  expect(report.problems).toEqual([]);
  expect(report.failedRequests).toBe(0);
  expect(report.worstPaymentDelayMs).toBeLessThan(MAX_TAKEOVER_MS);
});

it('returns no invoice whose quote the standby has not received', async () => {
  const { cluster, front, processes } = deployment;
  await cluster.waitUntilHealthy();
  const { npub } = new RecipientClient(front.origin);
  const requestInvoice = () =>
    requestJson(front.origin, `/.well-known/lnurlp/${npub}?amount=21000`);
  const resumeReplication = await cluster.stopReplication();
  try {
    const { status, headers } = await requestInvoice();
    expect(status).toBe(503);
    expect(headers.get('retry-after')).toMatch(/^\d+$/);
  } finally {
    resumeReplication();
  }
  await eventually(async () => expect((await requestInvoice()).status).toBe(200));
  await deployment.waitForServers(processes.length);
  expect(await deployment.takeProcessProblems()).toEqual([]);
});

/** Returns how long it takes until another server is the primary. Then waits until everything is as before. */
async function measureFailover(
  causeFailover: (primary: PatroniNode) => Promise<void>,
): Promise<number> {
  const { cluster, processes } = deployment;
  const primary = await cluster.waitUntilHealthy();
  const startedAtMs = performance.now();
  const failover = cluster.waitForOtherPrimary(primary).then(() => performance.now() - startedAtMs);
  await causeFailover(primary);
  const failoverMs = await failover;
  await cluster.waitUntilHealthy();
  await deployment.waitForServers(processes.length);
  return failoverMs;
}

function expectShortOutage(report: ScenarioReport, maxExtraOutageMs: number): void {
  const { failoverMs = 0 } = report;
  expect(report.problems).toEqual([]);
  expect(report.payerOutageMs).toBeLessThan(failoverMs + maxExtraOutageMs);
  expect(report.walletOutageMs).toBeLessThan(failoverMs + maxExtraOutageMs);
  expect(report.worstPaymentDelayMs).toBeLessThan(failoverMs + MAX_EXTRA_PAYMENT_DELAY_MS);
  expect(report.replayedUpdates).toBeGreaterThan(0);
}

async function isReady(origin: string): Promise<boolean> {
  return (await fetch(`${origin}/health/ready`)).ok;
}
