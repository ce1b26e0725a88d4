import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import type { ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { EcashPayer } from '../../helpers/ecash-payer.ts';
import { pause } from '../client.ts';
import type { ServiceProcess } from '../service-process.ts';
import {
  checkProcesses,
  missingOf,
  openStorm,
  type Storm,
  type StormOptions,
  type StormResult,
  seconds,
} from '../storm.ts';
import { Buyers, MANNERS, type MannerName, PRICE_SAT } from './buyers.ts';
import { CHECKS, checkAll, checkOwners, readJournal, readOwners } from './checks.ts';
import { INPUT_FEE_PPK, MINT_CHAOS } from './mint.ts';

/** Most kills are on PostgreSQL, where one process takes over from another. */
const SIZES = {
  sqlite: { shareOfKills: 0.1, scenesPerSecond: 1, style: 'cdk' },
  postgres: { shareOfKills: 0.9, scenesPerSecond: 1.5, style: 'nutshell' },
} as const;

/** One in this many kills must come after the mint had redeemed the token of an open purchase. */
const KILLS_PER_HIT = 20;

/** Most kills come after a swap began; the others at any time of a request. */
const AT_SWAP_SHARE = 0.75;
const LONGEST_WAIT_MS = 1_000;
const LOOK_MS = 5;

/** The time from there to the kill: many swaps take longer (`mint.ts`), and others are over at once. */
const LONGEST_DELAYS_MS = [5, 40, 200] as const;

const LONGEST_ABSENCE_MS = 300;

/** The storm has failed if it has not had all its kills and faults by then. */
const STORM_DEADLINE_MS = 420_000;

/** The mint keeps failing for this long after the last kill. */
const STORM_OUTLASTS_MS = 3_000;

/** How long the last buyers may wait for their final answer. */
const ANSWERS_DEADLINE_MS = 150_000;

/** How long recovery may take after that. */
const SETTLE_DEADLINE_MS = 120_000;
const SETTLE_POLL_MS = 5_000;

/** Faults so frequent that the storm is broken if one is missing. */
const SURE_FAULTS = ['cutAfter', 'late', 'error'] as const satisfies readonly (keyof ChaosRates)[];

interface Run extends Storm {
  mint: TestMint;
  payer: EcashPayer;
  buyers: Buyers;
  treasurySecret: string;
  /** Tokens of pending requests that the mint had redeemed when the process was killed. */
  hits: number;
}

/**
 * Runs the purchases storm: buyers, a mint that fails, and a service whose processes are killed during
 * purchases. Then checks that every token bought exactly one name, or is unspent.
 *
 * @throws if a process cannot be started again, or the signal aborts
 */
export async function runPurchaseStorm(options: StormOptions): Promise<StormResult> {
  const { database, say, signal } = options;
  const { shareOfKills, scenesPerSecond } = SIZES[database];
  const kills = Math.max(1, Math.round(options.kills * shareOfKills));
  await using stack = new AsyncDisposableStack();
  const giveUp = new AbortController();
  const run = await open(options, stack, giveUp.signal);
  const { site, mint, buyers, findings } = run;

  say(`starting, with ${kills} kills`);
  const startedAtMs = Date.now();
  const enough = new AbortController();
  mint.switches.chaos = MINT_CHAOS;
  const buying = buyers.run(scenesPerSecond, AbortSignal.any([enough.signal, run.signal]));
  await Promise.race([keepKilling(run, kills), buying]);
  enough.abort();
  for (const each of missing(run, kills)) {
    findings.note('storm', each);
  }
  const stormMs = Date.now() - startedAtMs;
  say(`${site.kills} kills in ${seconds(stormMs)}; waiting until every purchase is settled`);
  await pause(STORM_OUTLASTS_MS, run.signal);
  mint.switches.chaos = null;
  const tooLate = setTimeout(() => giveUp.abort(), ANSWERS_DEADLINE_MS);
  await buying;
  clearTimeout(tooLate);
  await waitUntilSettled(run);
  signal.throwIfAborted();
  const settledMs = Date.now() - startedAtMs - stormMs;

  const owners = await readOwners(run, buyers);
  const secrets = new Set(
    buyers.tokens.flatMap(({ proofs }) => proofs.map(({ secret }) => secret)),
  );
  await checkProcesses(run, (log) => [
    ...(log.match(/[0-9a-f]{64}/g)?.filter((hex) => secrets.has(hex)) ?? []),
    ...(log.match(/cashu[AB][\w-]{20}/g) ?? []),
  ]);
  const journal = await site.withDatabase(readJournal);
  checkOwners({ ...run, journal }, owners);
  const { redeemed, earnedSat } = await checkAll({ ...run, journal });
  const { requests, lost, refused } = buyers.counts;
  const answers = (status: number) =>
    buyers.claims.filter(({ answer }) => answer?.status === status).length;
  return {
    verdicts: findings.verdicts(),
    counts: {
      scenes: `${buyers.scenes.length}, with ${buyers.claims.length} claims`,
      answers: [201, 402, 409, 400].map((status) => `${status}: ${answers(status)}`).join(', '),
      requests: `${requests}: ${lost} without an answer, ${refused} answered with 5xx`,
      tokens: `${buyers.tokens.length}, ${redeemed} redeemed for ${earnedSat} sat`,
      kills: `${site.kills}; ${run.hits} open purchases whose token was redeemed`,
      'mint faults': Object.entries(mint.chaosCounts)
        .filter(([, count]) => count > 0)
        .map(([kind, count]) => `${kind} ${count}`)
        .join(', '),
      time: `storm ${seconds(stormMs)}, settled ${seconds(settledMs)} later`,
    },
  };
}

async function open(
  options: StormOptions,
  stack: AsyncDisposableStack,
  giveUp: AbortSignal,
): Promise<Run> {
  const { seed, database } = options;
  const mint = await TestMint.start({
    seed: `${seed}/purchases/${database}`,
    switches: { style: SIZES[database].style },
    inputFeePpk: INPUT_FEE_PPK,
  });
  stack.defer(() => mint.close());
  const payer = await EcashPayer.open(mint);
  const treasurySecret = randomBytes(32).toString('hex');
  const storm = await openStorm('purchases', options, stack, {
    checks: CHECKS,
    defaultMintUrl: mint.url,
    sharing: 3,
    env: { USERNAME_PRICE_SAT: String(PRICE_SAT), TREASURY_SECRET: treasurySecret },
  });
  const buyers = new Buyers(storm, payer, AbortSignal.any([storm.signal, giveUp]));
  return Object.assign(storm, { mint, payer, buyers, treasurySecret, hits: 0 });
}

/** Kills all processes in turn, this often and until nothing is missing. Then all are up. */
async function keepKilling(run: Run, kills: number): Promise<void> {
  const { site, dice } = run;
  const signal = AbortSignal.any([run.signal, AbortSignal.timeout(STORM_DEADLINE_MS)]);
  let begun = 0;
  const haunt = async (victim: ServiceProcess) => {
    const own = dice.fork(`kills of ${victim.name}`);
    while ((begun < kills || missing(run, kills).length > 0) && !signal.aborted) {
      begun += 1;
      if (!(await waitUntilBusy(run, victim, own, signal))) {
        return;
      }
      const pending = run.buyers.pendingAt(victim.origin);
      await site.kill(victim);
      const hits = pending.filter(({ token }) => run.mint.stateOf(token.ys[0] ?? '') === 'SPENT');
      run.hits += hits.length;
      await site.restart(victim, own.between(0, LONGEST_ABSENCE_MS), signal);
    }
  };
  await Promise.all(site.processes.map(haunt));
}

/** Waits until a process has purchases to answer. @returns false at the signal */
async function waitUntilBusy(
  { buyers, mint }: Run,
  { origin }: ServiceProcess,
  dice: Dice,
  signal: AbortSignal,
): Promise<boolean> {
  const isBusy = () => buyers.pendingAt(origin).length > 0;
  const swapCount = () => mint.requestCounts['POST /v1/swap'];
  do {
    const swapsBefore = swapCount();
    const waitUntil = Date.now() + (dice.happens(AT_SWAP_SHARE) ? LONGEST_WAIT_MS : 0);
    while (!isBusy() || (swapCount() === swapsBefore && Date.now() < waitUntil)) {
      if (!(await pause(LOOK_MS, signal))) {
        return false;
      }
    }
    await pause(dice.between(0, dice.pick(LONGEST_DELAYS_MS)), signal);
  } while (!isBusy() && !signal.aborted);
  return !signal.aborted;
}

/** Waits until no purchase is open, or too much time has passed. */
async function waitUntilSettled({ site, findings, signal }: Run): Promise<void> {
  const deadline = Date.now() + SETTLE_DEADLINE_MS;
  for (;;) {
    const open = await site.withDatabase(async ({ db }) => {
      const query = sql`select id from username_purchases where state = 'open'`;
      return (await query.execute(db)).rows.length;
    });
    if (open === 0) {
      return;
    }
    if (Date.now() > deadline || !(await pause(SETTLE_POLL_MS, signal))) {
      findings.note('settled', `${open} purchases are open`);
      return;
    }
  }
}

/** Returns what the storm still lacks. */
function missing({ site, mint, buyers, hits }: Run, kills: number): string[] {
  const { chaosCounts } = mint;
  const played = new Set(buyers.scenes.map(({ manner }) => manner));
  const manners = Object.keys(MANNERS) as MannerName[];
  return missingOf({
    [`${kills} kills, but ${site.kills}`]: site.kills < kills ? 0 : 1,
    [`${Math.ceil(kills / KILLS_PER_HIT)} purchases interrupted after the mint redeemed the token`]:
      hits * KILLS_PER_HIT < kills ? 0 : 1,
    ...Object.fromEntries(SURE_FAULTS.map((kind) => [kind, chaosCounts[kind]])),
    ...Object.fromEntries(manners.map((name) => [`scene of ${name}`, played.has(name) ? 1 : 0])),
  });
}
