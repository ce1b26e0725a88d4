import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { ChaosRates } from '../../src/demo/test-mint/chaos.ts';
import { Dice } from '../../src/demo/test-mint/dice.ts';
import { Client, pause } from '../faults/client.ts';
import { Findings, type Verdict } from '../faults/findings.ts';
import { type DatabaseKind, Site } from '../faults/site.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import { Buyers, PRICE_SAT } from './buyers.ts';
import { checkAll } from './checks.ts';
import { CHECKS, type CheckName } from './findings.ts';
import { Journal } from './journal.ts';
import { Killer } from './killer.ts';
import { PurchaseMint } from './mint.ts';
import { lookFromOutside, type OutsideView } from './outside.ts';
import { MANNERS } from './plan.ts';
import { Truth } from './truth.ts';

/** A start on the embedded database takes seconds, so most kills are on PostgreSQL. */
const SIZES = {
  embedded: { shareOfKills: 0.1, scenesPerSecond: 1, style: 'cdk' },
  postgres: { shareOfKills: 0.9, scenesPerSecond: 1.5, style: 'nutshell' },
} as const;

/** At least one in this many kills must interrupt a purchase. */
const KILLS_PER_HIT = 4;

/** The storm has failed if it has not had all its kills and faults by then. */
const STORM_DEADLINE_MS = 420_000;

/** The mint keeps failing for this long after the last kill. */
const STORM_OUTLASTS_MS = 3_000;

/** How long the last buyers may wait for their final answer. */
const ANSWERS_DEADLINE_MS = 150_000;

/** How long the recovery of purchases that no buyer asks for may take after that. */
const SETTLE_DEADLINE_MS = 120_000;
const SETTLE_POLL_MS = 5_000;

/** The options of a purchases storm. */
export interface RunOptions {
  database: DatabaseKind;
  seed: string;
  /** On all databases together. */
  kills: number;
  /** Holds the data and logs of the processes. */
  folder: string;
  /** Ends the run early; it then throws. */
  signal: AbortSignal;
  say: (line: string) => void;
}

/** The result of a run. */
export interface RunResult {
  verdicts: readonly Verdict[];
  /** Everything that was counted, by name. */
  counts: Record<string, string>;
}

/** The parts of a run. */
interface Run {
  site: Site;
  mint: PurchaseMint;
  truth: Truth;
  client: Client;
  buyers: Buyers;
  killer: Killer;
  journal: Journal;
  treasurySecret: string;
  findings: Findings<CheckName>;
  dice: Dice;
  end: AbortController;
}

/**
 * One storm of purchases: buyers on one side, a mint where much goes wrong on the other, and between
 * them a service whose processes are killed while they are at purchases. Then all must be right.
 *
 * @throws where a process cannot be started again, or the signal came
 */
export async function runPurchaseStorm(options: RunOptions): Promise<RunResult> {
  const { database, say, signal } = options;
  const { shareOfKills, scenesPerSecond } = SIZES[database];
  const kills = Math.max(1, Math.round(options.kills * shareOfKills));
  await using stack = new AsyncDisposableStack();
  const run = await prepare(options, stack);
  const { mint, buyers, killer, findings, dice, end } = run;
  const missing = () => missingOf(run, kills);

  say(`starting, with ${kills} kills`);
  const startedAtMs = Date.now();
  const enough = new AbortController();
  mint.startStorm();
  const buying = buyers.run(scenesPerSecond, AbortSignal.any([enough.signal, end.signal]));
  const isEnough = () => missing().length === 0;
  const tooLate = AbortSignal.timeout(STORM_DEADLINE_MS);
  const killing = AbortSignal.any([end.signal, tooLate]);
  await Promise.race([killer.run(kills, isEnough, dice.fork('kills'), killing), buying]);
  enough.abort();
  for (const each of missing()) {
    findings.note('storm', each);
  }
  const stormMs = Date.now() - startedAtMs;
  say(
    `${killer.counts.kills} kills in ${seconds(stormMs)}; waiting until every purchase is settled`,
  );
  await pause(STORM_OUTLASTS_MS, end.signal);
  mint.endStorm();
  const giveUp = setTimeout(() => end.abort(), ANSWERS_DEADLINE_MS);
  await buying;
  clearTimeout(giveUp);
  signal.throwIfAborted();
  await waitUntilSettled(run);
  const settledMs = Date.now() - startedAtMs - stormMs;

  const views = await lookAtNames(run);
  await checkProcesses(run);
  const kept = await run.journal.all();
  const sums = await checkAll({ ...run, views, ...kept });
  return {
    verdicts: findings.verdicts(),
    counts: countsOf(run, { ...sums, stormMs, settledMs }),
  };
}

async function prepare(
  { database, seed, folder, signal }: RunOptions,
  stack: AsyncDisposableStack,
): Promise<Run> {
  const end = new AbortController();
  signal.addEventListener('abort', () => end.abort(signal.reason));
  const dice = new Dice(`${seed}/purchases/${database}`);
  const findings = new Findings(CHECKS);
  const mint = await PurchaseMint.open(`${seed}/purchases/${database}`, SIZES[database].style);
  stack.defer(() => mint.mint.close());
  const treasurySecret = randomBytes(32).toString('hex');
  const home = path.join(folder, `purchases-${database}`);
  const site = await Site.open({
    database,
    folder: home,
    defaultMintUrl: mint.mint.url,
    sharing: 3,
    env: { USERNAME_PRICE_SAT: String(PRICE_SAT), TREASURY_SECRET: treasurySecret },
    onDeath: (description) => findings.note('processes', description),
  });
  stack.use(site);
  stack.defer(() => end.abort());
  const truth = new Truth();
  const client = new Client(findings);
  const buyers = new Buyers({ site, mint, truth, client, dice, signal: end.signal });
  const journal = new Journal(site.location, home);
  const killer = new Killer({ site, buyers, journal, mint });
  return {
    site,
    mint,
    truth,
    client,
    buyers,
    killer,
    journal,
    treasurySecret,
    findings,
    dice,
    end,
  };
}

/** Waits until the journal has no open purchase, or too much time has passed. */
async function waitUntilSettled({ site, journal, findings, end }: Run): Promise<void> {
  const deadline = Date.now() + SETTLE_DEADLINE_MS;
  for (;;) {
    // An embedded database is read while nobody has it.
    const mustStop = site.location.kind === 'embedded';
    if (mustStop) {
      await Promise.all(site.processes.map((each) => each.stop()));
    }
    const open = await journal.openCount();
    if (mustStop) {
      for (const each of site.processes) {
        each.start();
      }
      await Promise.all(site.processes.map((each) => each.ready()));
    }
    if (open === 0) {
      return;
    }
    if (Date.now() > deadline || !(await pause(SETTLE_POLL_MS, end.signal))) {
      findings.note('settled', `${open} purchases are open`);
      return;
    }
  }
}

async function lookAtNames({ site, client, truth }: Run): Promise<OutsideView[]> {
  const names = new Set(truth.claims.map(({ name }) => name));
  const buyers = new Map<string, TestWallet>(
    truth.claims.map(({ buyer }) => [buyer.pubkey, buyer]),
  );
  return await lookFromOutside(site, client, names, buyers);
}

async function checkProcesses({ site, truth, findings }: Run): Promise<void> {
  const secrets = new Set(truth.tokens.flatMap(({ proofs }) => proofs.map(({ secret }) => secret)));
  for (const each of site.processes) {
    if (!(await each.stop())) {
      findings.note('processes', `${each.name} did not shut down cleanly`);
    }
    for (const complaint of await each.complaints()) {
      findings.note('processes', `${each.name} logged: ${complaint}`);
    }
    const log = await readFile(each.logFile, 'utf8');
    const leaks = log.match(/[0-9a-f]{64}/g)?.filter((hex) => secrets.has(hex)) ?? [];
    const tokens = log.match(/cashu[AB][\w-]{20}/g) ?? [];
    if (leaks.length + tokens.length > 0) {
      findings.note('secrets', `${each.name}: ${leaks.length} secrets, ${tokens.length} tokens`);
    }
  }
}

/** What the storm still lacks. Without faults it would prove nothing. */
function missingOf({ mint, killer, truth }: Run, wantedKills: number): string[] {
  const { kills, killsThatHit, redeemedAlready } = killer.counts;
  const { chaosCounts } = mint.mint;
  const happened: Record<string, number> = {
    'purchases interrupted after the mint had redeemed the token': redeemedAlready,
    ...Object.fromEntries(SURE_FAULTS.map((kind) => [kind, chaosCounts[kind]])),
    ...Object.fromEntries(
      MANNERS.map((manner) => [`scenes of ${manner}`, scenesOf(truth, manner)]),
    ),
  };
  const missing = Object.entries(happened)
    .filter(([, count]) => count === 0)
    .map(([name]) => `no ${name}`);
  if (kills < wantedKills) {
    missing.push(`${kills} kills instead of ${wantedKills}`);
  }
  if (killsThatHit * KILLS_PER_HIT < wantedKills) {
    missing.push(`only ${killsThatHit} of ${kills} kills interrupted a purchase`);
  }
  return missing;
}

/** Faults so frequent that the test is broken if one is missing. */
const SURE_FAULTS = ['cutAfter', 'late', 'error'] as const satisfies readonly (keyof ChaosRates)[];

function countsOf(
  { truth, buyers, killer, mint }: Run,
  sums: { redeemed: number; earnedSat: number; stormMs: number; settledMs: number },
): Record<string, string> {
  const { claims } = truth;
  const told = (status: number) => claims.filter(({ answer }) => answer?.status === status).length;
  const goneWithout = claims.filter((claim) => claim.hasGivenUp && claim.answer === null).length;
  const { kills, killsThatHit, purchasesHit, redeemedAlready } = killer.counts;
  const { requests, lost, refused } = buyers.counts;
  return {
    scenes: `${truth.scenes.length}: ${MANNERS.map((manner) => `${manner} ${scenesOf(truth, manner)}`).join(', ')}`,
    claims: `${claims.length}: 201 ${told(201)}, 402 ${told(402)}, 409 ${told(409)}, 400 ${told(400)}, left without an answer ${goneWithout}`,
    requests: `${requests}: ${lost} without an answer, ${refused} answered with 5xx`,
    tokens: `${truth.tokens.length}, ${sums.redeemed} redeemed for ${sums.earnedSat} sat`,
    kills: `${kills}; ${killsThatHit} of them interrupted ${purchasesHit} purchases, ${redeemedAlready} after the mint had redeemed the token`,
    'mint faults': Object.entries(mint.mint.chaosCounts)
      .filter(([, count]) => count > 0)
      .map(([kind, count]) => `${kind} ${count}`)
      .join(', '),
    time: `storm ${seconds(sums.stormMs)}, settled ${seconds(sums.settledMs)} later`,
  };
}

function scenesOf({ scenes }: Truth, manner: string): number {
  return scenes.filter((scene) => scene.manner === manner).length;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
