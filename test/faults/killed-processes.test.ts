import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { PaymentTraffic } from '../helpers/traffic/payment-traffic.ts';
import { type Deployment, startDeployment } from './deployment.ts';

/** Real processes and databases, as the simulation cannot have them. It tests all other faults. */

const FAULTS_MS = 15_000;
const MIN_FAULTS = 3;

/** Longer than the lease of a mint, so that the other process takes over. */
const LONG_DOWNTIME_MS = 17_000;

// Half a minute on two cores that do nothing else.
vi.setConfig({ testTimeout: 300_000 });

// Concurrent, because processes and payers mostly wait.
it.concurrent.each(['sqlite', 'postgres'] as const)(
  'lists every payment once and sends every update although processes are killed (%s)',
  (database) =>
    runFaults(database, async ({ processes }, random) => {
      const target = random.pick(processes);
      await target.kill();
      // Sometimes again before or soon after it is ready.
      while (random.chance(0.25)) {
        target.start();
        await delay(random.between(0, 2_000));
        await target.kill();
      }
      const isLong = processes.length > 1 && random.chance(0.2);
      await delay(isLong ? LONG_DOWNTIME_MS : random.between(0, 2_000));
      target.start();
      await target.waitUntilReady();
    }),
);

// sqlite-power-cut.test.ts does the same on SQLite, with a disk that loses what was not synced.
it.concurrent('lists every payment once and sends every update although the power fails (postgres)', () =>
  runFaults('postgres', async ({ processes, cluster }, random) => {
    await Promise.all([cluster?.halt('immediate'), ...processes.map((each) => each.kill())]);
    await delay(random.between(0, 1_000));
    await cluster?.resume();
    for (const each of processes) {
      each.start();
    }
    await Promise.all(processes.map((each) => each.waitUntilReady()));
  }));

/** Repeats a fault while payers pay. Its random choices, but not the course of events, can be repeated with FAULTS_SEED. */
async function runFaults(
  database: 'sqlite' | 'postgres',
  causeFault: (deployment: Deployment, random: SeededRandom) => Promise<void>,
): Promise<void> {
  const seed = process.env['FAULTS_SEED'] ?? String(randomInt(1_000_000_000));
  const random = new SeededRandom(seed);
  await using stack = new AsyncDisposableStack();
  const deployment = await startDeployment(stack, database, random.fork('origins'));
  const { mints, pickOrigin } = deployment;
  const traffic = new PaymentTraffic({ seed, mints, pickOrigin });
  stack.defer(() => traffic.end());
  await traffic.start();
  const endsAtMs = Date.now() + FAULTS_MS;
  let faultCount = 0;
  while (Date.now() < endsAtMs || faultCount < MIN_FAULTS) {
    await delay(random.between(500, 3_000));
    await causeFault(deployment, random);
    faultCount += 1;
  }
  for (const { switches } of mints) {
    switches.chaos = null;
  }
  // Some payments and updates after the last fault.
  await delay(3_000);
  const faultsEndedAtMs = Date.now();
  await traffic.finish();
  const problems = [...traffic.problems, ...(await deployment.stopAndListProblems())];
  const counts = `seed ${seed}: ${traffic.payments.length} payments, ${faultCount} faults, complete ${Date.now() - faultsEndedAtMs} ms later`;
  console.log(`${database}, ${counts}`);
  expect(problems.slice(0, 20), counts).toEqual([]);
}
