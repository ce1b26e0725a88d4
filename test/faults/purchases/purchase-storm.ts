import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import type { ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { EcashPayer } from '../../helpers/ecash-payer.ts';
import type { ServiceProcess } from '../service-process.ts';
import {
  describeMissing,
  formatSeconds,
  type Storm,
  type StormOptions,
  type StormResult,
  startStorm,
  stopAndCheckProcesses,
} from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import { BuyerSimulation, PRICE_SAT, SCENARIOS, type ScenarioName } from './buyer-simulation.ts';
import { CHECKS, checkOwners, checkPurchases, readOwners, readSnapshot } from './checks.ts';
import { INPUT_FEE_PPK, MINT_CHAOS } from './mint-chaos.ts';

/** Most kills are on PostgreSQL, where a process takes over the work of another. */
const STORM_CONFIGS = {
  sqlite: { shareOfKills: 0.1, scenariosPerSecond: 1, style: 'cdk' },
  postgres: { shareOfKills: 0.9, scenariosPerSecond: 1.5, style: 'nutshell' },
} as const;

/** At least one in this many kills must interrupt a purchase whose token is already redeemed. */
const KILLS_PER_REDEEMED_KILL = 20;

/** Share of kills that wait for a swap to begin. The others happen at any time during a request. */
const KILL_AFTER_SWAP_SHARE = 0.75;
const MAX_SWAP_WAIT_MS = 1_000;
const POLL_INTERVAL_MS = 5;

/** Time from then to the kill. Many swaps take longer (`mint-chaos.ts`), others finish immediately. */
const MAX_KILL_DELAYS_MS = [5, 40, 200] as const;

const MAX_DOWNTIME_MS = 300;

/** The storm fails if it has not had all its kills and faults by then. */
const STORM_DEADLINE_MS = 420_000;

/** How long the mint injects faults after the last kill. */
const EXTRA_CHAOS_MS = 3_000;

/** How long the last buyers may wait for their final response. */
const FINAL_RESPONSES_DEADLINE_MS = 150_000;

/** How long the recovery of open purchases may take after that. */
const RECOVERY_DEADLINE_MS = 120_000;
const RECOVERY_POLL_INTERVAL_MS = 5_000;

/** Frequent faults. If one never happened, the storm is broken. */
const REQUIRED_FAULTS = [
  'cutAfter',
  'late',
  'error',
] as const satisfies readonly (keyof ChaosRates)[];

interface PurchaseStormRun extends Storm {
  mint: TestMint;
  payer: EcashPayer;
  buyers: BuyerSimulation;
  treasurySecret: string;
  /** Purchases that a kill interrupted after the mint had redeemed the token. */
  redeemedKillCount: number;
}

/**
 * Runs the purchases storm: buyers use the service while its processes are killed during purchases and its
 * mint fails. Then checks that every token bought exactly one name or is unspent.
 *
 * @throws Error if a process cannot be restarted, or the signal aborts
 */
export async function runPurchaseStorm(options: StormOptions): Promise<StormResult> {
  const { database, logProgress, signal } = options;
  const { shareOfKills, scenariosPerSecond } = STORM_CONFIGS[database];
  const kills = Math.max(1, Math.round(options.killCount * shareOfKills));
  await using stack = new AsyncDisposableStack();
  const giveUp = new AbortController();
  const run = await startRun(options, stack, giveUp.signal);
  const { deployment, mint, buyers, checkResults } = run;

  logProgress(`starting, with ${kills} kills`);
  const startedAtMs = Date.now();
  const stopBuying = new AbortController();
  mint.switches.chaos = MINT_CHAOS;
  const buying = buyers.run(scenariosPerSecond, AbortSignal.any([stopBuying.signal, run.signal]));
  await Promise.race([killProcessesDuringPurchases(run, kills), buying]);
  stopBuying.abort();
  for (const each of findMissingFaults(run, kills)) {
    checkResults.addProblem('faults', each);
  }
  const stormMs = Date.now() - startedAtMs;
  logProgress(
    `${deployment.kills} kills in ${formatSeconds(stormMs)}; waiting until every purchase is complete`,
  );
  await sleepUnlessAborted(EXTRA_CHAOS_MS, run.signal);
  mint.switches.chaos = null;
  const giveUpTimer = setTimeout(() => giveUp.abort(), FINAL_RESPONSES_DEADLINE_MS);
  await buying;
  clearTimeout(giveUpTimer);
  await waitUntilPurchasesComplete(run);
  signal.throwIfAborted();
  const completedMs = Date.now() - startedAtMs - stormMs;

  const owners = await readOwners(run, buyers);
  const secrets = new Set(
    buyers.tokens.flatMap(({ proofs }) => proofs.map(({ secret }) => secret)),
  );
  await stopAndCheckProcesses(run, (log) => [
    ...(log.match(/[0-9a-f]{64}/g)?.filter((hex) => secrets.has(hex)) ?? []),
    ...(log.match(/cashu[AB][\w-]{20}/g) ?? []),
  ]);
  const snapshot = await deployment.withDatabase(readSnapshot);
  checkOwners({ ...run, snapshot }, owners);
  const { redeemed, earnedSat } = await checkPurchases({ ...run, snapshot });
  const { requests, lost, rejected } = buyers.counts;
  const responses = (status: number) =>
    buyers.attempts.filter(({ finalResponse: response }) => response?.status === status).length;
  return {
    checkResults: checkResults.results(),
    counts: {
      scenarios: `${buyers.scenarioRuns.length}, with ${buyers.attempts.length} attempts`,
      responses: [201, 402, 409, 400].map((status) => `${status}: ${responses(status)}`).join(', '),
      requests: `${requests}: ${lost} without a response, ${rejected} with a 5xx response`,
      tokens: `${buyers.tokens.length}, ${redeemed} redeemed for ${earnedSat} sat`,
      kills: `${deployment.kills}; ${run.redeemedKillCount} open purchases whose token was redeemed`,
      'mint faults': Object.entries(mint.chaosCounts)
        .filter(([, count]) => count > 0)
        .map(([kind, count]) => `${kind} ${count}`)
        .join(', '),
      time: `storm ${formatSeconds(stormMs)}, complete ${formatSeconds(completedMs)} later`,
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
    switches: { style: STORM_CONFIGS[database].style },
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
  return Object.assign(storm, { mint, payer, buyers, treasurySecret, redeemedKillCount: 0 });
}

/** Kills processes until `kills` and {@link findMissingFaults} are satisfied. All are up when it resolves. */
async function killProcessesDuringPurchases(run: PurchaseStormRun, kills: number): Promise<void> {
  const { deployment, random } = run;
  const signal = AbortSignal.any([run.signal, AbortSignal.timeout(STORM_DEADLINE_MS)]);
  let started = 0;
  const killRepeatedly = async (target: ServiceProcess) => {
    const targetRandom = random.fork(`kills of ${target.name}`);
    while ((started < kills || findMissingFaults(run, kills).length > 0) && !signal.aborted) {
      started += 1;
      if (!(await waitForPendingPurchase(run, target, targetRandom, signal))) {
        return;
      }
      const pending = run.buyers.pendingAttemptsAt(target.origin);
      await deployment.kill(target);
      const redeemed = pending.filter(
        ({ token }) => run.mint.proofState(token.ys[0] ?? '') === 'SPENT',
      );
      run.redeemedKillCount += redeemed.length;
      await deployment.restart(target, targetRandom.between(0, MAX_DOWNTIME_MS), signal);
    }
  };
  await Promise.all(deployment.processes.map(killRepeatedly));
}

/** Waits until a process has pending purchases. @returns false if the signal aborts */
async function waitForPendingPurchase(
  { buyers, mint }: PurchaseStormRun,
  { origin }: ServiceProcess,
  random: SeededRandom,
  signal: AbortSignal,
): Promise<boolean> {
  const isBusy = () => buyers.pendingAttemptsAt(origin).length > 0;
  const swapCount = () => mint.requestCounts['POST /v1/swap'];
  do {
    const swapsBefore = swapCount();
    const waitUntil = Date.now() + (random.chance(KILL_AFTER_SWAP_SHARE) ? MAX_SWAP_WAIT_MS : 0);
    while (!isBusy() || (swapCount() === swapsBefore && Date.now() < waitUntil)) {
      if (!(await sleepUnlessAborted(POLL_INTERVAL_MS, signal))) {
        return false;
      }
    }
    await sleepUnlessAborted(random.between(0, random.pick(MAX_KILL_DELAYS_MS)), signal);
  } while (!isBusy() && !signal.aborted);
  return !signal.aborted;
}

/** Waits until no purchase is open, or until the deadline. */
async function waitUntilPurchasesComplete({
  deployment,
  checkResults,
  signal,
}: PurchaseStormRun): Promise<void> {
  const deadline = Date.now() + RECOVERY_DEADLINE_MS;
  for (;;) {
    const open = await deployment.withDatabase(async ({ db }) => {
      const query = sql`select id from username_purchases where state = 'open'`;
      return (await query.execute(db)).rows.length;
    });
    if (open === 0) {
      return;
    }
    if (Date.now() > deadline || !(await sleepUnlessAborted(RECOVERY_POLL_INTERVAL_MS, signal))) {
      checkResults.addProblem('recovered', `${open} purchases are open`);
      return;
    }
  }
}

/** Describes the kills, faults and scenarios that have not happened yet. */
function findMissingFaults(
  { deployment, mint, buyers, redeemedKillCount }: PurchaseStormRun,
  kills: number,
): string[] {
  const { chaosCounts } = mint;
  const seen = new Set(buyers.scenarioRuns.map(({ scenario }) => scenario));
  const scenarios = Object.keys(SCENARIOS) as ScenarioName[];
  return describeMissing({
    [`${kills} kills, but ${deployment.kills}`]: deployment.kills < kills ? 0 : 1,
    [`${Math.ceil(kills / KILLS_PER_REDEEMED_KILL)} purchases interrupted after the mint redeemed the token`]:
      redeemedKillCount * KILLS_PER_REDEEMED_KILL < kills ? 0 : 1,
    ...Object.fromEntries(REQUIRED_FAULTS.map((kind) => [kind, chaosCounts[kind]])),
    ...Object.fromEntries(scenarios.map((name) => [`scenario '${name}'`, seen.has(name) ? 1 : 0])),
  });
}
