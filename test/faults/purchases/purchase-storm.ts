import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import type { ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { EcashPayer } from '../../helpers/recipients/ecash-payer.ts';
import type { ServiceProcess } from '../service-process.ts';
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
  BuyerSimulation,
  PRICE_SAT,
  type PurchaseAttempt,
  SCENARIOS,
  type ScenarioName,
} from './buyer-simulation.ts';
import {
  CHECKS,
  checkOwners,
  checkPurchases,
  fetchOwnersFromProcesses,
  readDatabaseSnapshot,
} from './checks.ts';
import { INPUT_FEE_PPK, MINT_CHAOS } from './mint-chaos.ts';

/** Most kills happen on PostgreSQL, because only there another process can take over from the killed process. */
const STORM_CONFIGS = {
  sqlite: { shareOfKills: 0.1, scenariosPerSecond: 1, mintStyle: 'cdk' },
  postgres: { shareOfKills: 0.9, scenariosPerSecond: 1.5, mintStyle: 'nutshell' },
} as const;

/** On average, at least one in this many kills must interrupt a purchase whose token is already redeemed. */
const KILLS_PER_INTERRUPTION_AFTER_REDEMPTION = 20;

/** Share of kills that happen after a process starts to swap a token. Other kills happen at any time of a request. */
const KILL_AFTER_SWAP_SHARE = 0.75;
const MAX_SWAP_WAIT_MS = 1_000;
const POLL_INTERVAL_MS = 5;

/**
 * The maximum delay of a kill is one of these at random, because swaps take from no time to seconds (`mint-chaos.ts`).
 */
const MAX_KILL_DELAYS_MS = [5, 40, 200] as const;

const MAX_DOWNTIME_MS = 300;

/** Kills stop after this time. The storm fails if required kills or faults are missing then. */
const MAX_KILLING_MS = 420_000;

/** How long the mint injects faults after the last kill. */
const EXTRA_CHAOS_MS = 3_000;

/** How long buyers may wait for their final responses after the mint's last fault. */
const MAX_FINAL_RESPONSE_WAIT_MS = 150_000;

/** How long the recovery of open purchases may take after all buyers have finished. */
const MAX_RECOVERY_MS = 120_000;
const RECOVERY_POLL_INTERVAL_MS = 5_000;

/** These faults are frequent. If a fault in this list never happens, the storm is broken. */
const REQUIRED_FAULTS = [
  'cutAfter',
  'late',
  'error',
] as const satisfies readonly (keyof ChaosRates)[];

interface PurchaseStormRun extends ProcessStorm {
  mint: TestMint;
  payer: EcashPayer;
  buyers: BuyerSimulation;
  treasurySecret: string;
  interruptedAfterRedemption: number;
}

/**
 * Runs the purchases storm: buyers buy names while the storm kills processes of the service and its mint injects
 * faults. Then checks that every token bought exactly one name or is unspent.
 */
export async function runPurchaseStorm(options: StormOptions): Promise<StormResult> {
  const { database, logProgress, signal } = options;
  const { shareOfKills, scenariosPerSecond } = STORM_CONFIGS[database];
  const targetKills = Math.max(1, Math.round(options.killCount * shareOfKills));
  await using stack = new AsyncDisposableStack();
  const giveUp = new AbortController();
  const run = await startRun(options, stack, giveUp.signal);
  const { deployment, mint, buyers, checkRecorder } = run;

  logProgress(`starting, with ${targetKills} kills`);
  const startedAtMs = Date.now();
  const stopBuying = new AbortController();
  mint.switches.chaos = MINT_CHAOS;
  const buying = buyers.run(scenariosPerSecond, AbortSignal.any([stopBuying.signal, run.signal]));
  await Promise.race([killProcessesDuringPurchases(run, targetKills), buying]);
  stopBuying.abort();
  for (const missing of findMissingEvents(run, targetKills)) {
    checkRecorder.addProblem('faults', missing);
  }
  const stormMs = Date.now() - startedAtMs;
  logProgress(
    `${deployment.killCount} kills in ${formatSeconds(stormMs)}; waiting until every purchase is complete`,
  );
  await sleepUnlessAborted(EXTRA_CHAOS_MS, run.signal);
  mint.switches.chaos = null;
  const giveUpTimer = setTimeout(() => giveUp.abort(), MAX_FINAL_RESPONSE_WAIT_MS);
  await buying;
  clearTimeout(giveUpTimer);
  await waitUntilPurchasesComplete(run);
  signal.throwIfAborted();
  const completionMs = Date.now() - startedAtMs - stormMs;

  const ownersByProcess = await fetchOwnersFromProcesses(run, buyers);
  const proofSecrets = new Set(
    buyers.tokens.flatMap(({ proofs }) => proofs.map(({ secret }) => secret)),
  );
  await stopAndCheckProcesses(run, (log) => [
    ...(log.match(/[0-9a-f]{64}/g)?.filter((hex) => proofSecrets.has(hex)) ?? []),
    ...(log.match(/cashu[AB][\w-]{20}/g) ?? []),
  ]);
  const snapshot = await deployment.withDatabase(readDatabaseSnapshot);
  checkOwners({ ...run, snapshot }, ownersByProcess);
  const { redeemedTokenCount, treasuryBalanceSat } = await checkPurchases({ ...run, snapshot });
  const { requests, withoutResponse, retriable } = buyers.counts;
  const countResponses = (status: number) =>
    buyers.attempts.filter(({ finalResponse }) => finalResponse?.status === status).length;
  return {
    checkResults: checkRecorder.results(),
    counts: {
      scenarios: `${buyers.scenarioRuns.length}, with ${buyers.attempts.length} attempts`,
      responses: [201, 402, 409, 400]
        .map((status) => `${status}: ${countResponses(status)}`)
        .join(', '),
      requests: `${requests}: ${withoutResponse} without a response, ${retriable} with a retriable response`,
      tokens: `${buyers.tokens.length}, ${redeemedTokenCount} redeemed for ${treasuryBalanceSat} sat`,
      kills: `${deployment.killCount}; ${run.interruptedAfterRedemption} attempts interrupted after redemption`,
      'mint faults': Object.entries(mint.chaosCounts)
        .filter(([, count]) => count > 0)
        .map(([kind, count]) => `${kind} ${count}`)
        .join(', '),
      time: `storm ${formatSeconds(stormMs)}, all purchases complete ${formatSeconds(completionMs)} later`,
    },
  };
}

async function startRun(
  options: StormOptions,
  stack: AsyncDisposableStack,
  giveUp: AbortSignal,
): Promise<PurchaseStormRun> {
  const { seed, database } = options;
  const mint = await TestMint.start({
    seed: `${seed}/purchases/${database}`,
    switches: { style: STORM_CONFIGS[database].mintStyle },
    inputFeePpk: INPUT_FEE_PPK,
  });
  stack.defer(() => mint.close());
  const payer = await EcashPayer.open(mint);
  const treasurySecret = randomBytes(32).toString('hex');
  const storm = await startStorm('purchases', options, stack, {
    checks: CHECKS,
    defaultMintUrl: mint.url,
    processCount: 3,
    env: { USERNAME_PRICE_SAT: String(PRICE_SAT), TREASURY_SECRET: treasurySecret },
  });
  const buyers = new BuyerSimulation(storm, payer, AbortSignal.any([storm.signal, giveUp]));
  return Object.assign(storm, {
    mint,
    payer,
    buyers,
    treasurySecret,
    interruptedAfterRedemption: 0,
  });
}

/**
 * Kills and restarts processes until there were `targetKills` kills and no required fault is missing. Finally, all
 * processes are up again.
 */
async function killProcessesDuringPurchases(
  run: PurchaseStormRun,
  targetKills: number,
): Promise<void> {
  const { deployment, random } = run;
  const signal = AbortSignal.any([run.signal, AbortSignal.timeout(MAX_KILLING_MS)]);
  let startedKills = 0;
  const killRepeatedly = async (target: ServiceProcess) => {
    const targetRandom = random.fork(`kills of ${target.name}`);
    while (
      (startedKills < targetKills || findMissingEvents(run, targetKills).length > 0) &&
      !signal.aborted
    ) {
      startedKills += 1;
      if (!(await waitForKillTime(run, target, targetRandom, signal))) {
        return;
      }
      const pending = run.buyers.pendingAttemptsAt(target.origin);
      await deployment.kill(target);
      const hasRedeemedToken = ({ token }: PurchaseAttempt) =>
        run.mint.getProofState(token.ys[0] ?? '') === 'SPENT';
      run.interruptedAfterRedemption += pending.filter(hasRedeemedToken).length;
      await deployment.restart(target, targetRandom.between(0, MAX_DOWNTIME_MS), signal);
    }
  };
  await Promise.all(deployment.processes.map(killRepeatedly));
}

/** Waits for a random time at which the process has pending purchase requests. @returns false if the signal aborts */
async function waitForKillTime(
  { buyers, mint }: PurchaseStormRun,
  { origin }: ServiceProcess,
  random: SeededRandom,
  signal: AbortSignal,
): Promise<boolean> {
  const hasPendingRequest = () => buyers.pendingAttemptsAt(origin).length > 0;
  const swapCount = () => mint.requestCounts['POST /v1/swap'];
  do {
    const swapsBefore = swapCount();
    const swapDeadlineMs =
      Date.now() + (random.chance(KILL_AFTER_SWAP_SHARE) ? MAX_SWAP_WAIT_MS : 0);
    while (!hasPendingRequest() || (swapCount() === swapsBefore && Date.now() < swapDeadlineMs)) {
      if (!(await sleepUnlessAborted(POLL_INTERVAL_MS, signal))) {
        return false;
      }
    }
    await sleepUnlessAborted(random.between(0, random.pick(MAX_KILL_DELAYS_MS)), signal);
  } while (!hasPendingRequest() && !signal.aborted);
  return !signal.aborted;
}

/** Waits until no purchase is open. Adds a problem if that takes longer than {@link MAX_RECOVERY_MS}. */
async function waitUntilPurchasesComplete({
  deployment,
  checkRecorder,
  signal,
}: PurchaseStormRun): Promise<void> {
  const deadlineMs = Date.now() + MAX_RECOVERY_MS;
  for (;;) {
    const openPurchases = await deployment.withDatabase(async ({ db }) => {
      const query = sql`select id from username_purchases where state = 'open'`;
      return (await query.execute(db)).rows.length;
    });
    if (openPurchases === 0) {
      return;
    }
    if (Date.now() > deadlineMs || !(await sleepUnlessAborted(RECOVERY_POLL_INTERVAL_MS, signal))) {
      checkRecorder.addProblem('recovered', `${openPurchases} purchases are open`);
      return;
    }
  }
}

function findMissingEvents(
  { deployment, mint, buyers, interruptedAfterRedemption }: PurchaseStormRun,
  targetKills: number,
): string[] {
  const { killCount } = deployment;
  const minInterruptions = Math.ceil(targetKills / KILLS_PER_INTERRUPTION_AFTER_REDEMPTION);
  const countRuns = (name: ScenarioName) =>
    buyers.scenarioRuns.filter(({ scenario }) => scenario === name).length;
  const scenarios = Object.keys(SCENARIOS) as ScenarioName[];
  return [
    ...(killCount < targetKills ? [`only ${killCount} of ${targetKills} kills`] : []),
    ...(interruptedAfterRedemption < minInterruptions
      ? [`only ${interruptedAfterRedemption} attempts interrupted after redemption`]
      : []),
    ...describeZeroCounts({
      ...Object.fromEntries(REQUIRED_FAULTS.map((kind) => [kind, mint.chaosCounts[kind]])),
      ...Object.fromEntries(scenarios.map((name) => [`scenario '${name}'`, countRuns(name)])),
    }),
  ];
}
