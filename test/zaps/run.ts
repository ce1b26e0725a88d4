import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { generateSecretKey, getPublicKey } from 'nostr-tools';
import { Dice } from '../../src/demo/test-mint/dice.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { Client, pause } from '../faults/client.ts';
import { Findings, type Verdict } from '../faults/findings.ts';
import { type DatabaseKind, Site } from '../faults/site.ts';
import { TestWallet } from '../helpers/wallet.ts';
import { checkLists, checkOutbox, checkReceipts, type Evidence } from './checks.ts';
import { CHECKS } from './findings.ts';
import { Killer } from './killer.ts';
import { Outbox } from './outbox.ts';
import { Payers } from './payers.ts';
import { planZap } from './plan.ts';
import { openRelays } from './relays.ts';
import { Truth } from './truth.ts';

const RECIPIENTS = 12;

/** Kills that must interrupt a delivery. */
const LEAST_HITS = 3;

/** The relays keep failing for this long after the last process is up again. */
const STORM_OUTLASTS_MS = 5_000;

/** How long the service may take when the relays are well: a dead process has its relays for 15 s. */
const SETTLE_DEADLINE_MS = 120_000;
const SETTLE_POLL_MS = 200;

/** What was being sent as the storm ended may come to nothing, and rest anew. */
const RESTS_END_EVERY_MS = 12_000;

/** What a relay says that it has already is written down in this time. */
const WRITTEN_WITHIN_MS = 3_000;

/** A second receipt of the same payment would follow within this time. */
const QUIET_MS = 2_000;

/** The options of a zaps storm. */
export interface RunOptions {
  database: DatabaseKind;
  seed: string;
  zaps: number;
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
interface Run extends Evidence {
  site: Site;
  payers: Payers;
  killer: Killer;
  outbox: Outbox;
  zapSecretKey: string;
  dice: Dice;
  end: AbortController;
}

/**
 * One storm of zaps: payers on one side, relays that do whatever relays do on the other, and between
 * them a service whose processes are killed while receipts are made and sent. Then every relay but the
 * dead one has every receipt, once.
 *
 * @throws where a process cannot be started again, or the signal came
 */
export async function runZapStorm(options: RunOptions): Promise<RunResult> {
  const { zaps, say, signal } = options;
  await using stack = new AsyncDisposableStack();
  const run = await prepare(options, stack);
  const { site, relays, payers, killer, findings, dice, end } = run;
  const size = { recipients: RECIPIENTS, relays: relays.length };

  say(`${zaps} invoices, ${relays.length} relays`);
  const startedAtMs = Date.now();
  const mercy = new AbortController();
  const calm = new AbortController();
  const killing = killer.run(dice.fork('kills'), AbortSignal.any([mercy.signal, end.signal]));
  const storm = AbortSignal.any([calm.signal, end.signal]);
  const raging = Promise.all([
    run.outbox.keepEndingRests(storm),
    ...relays.map((relay) => relay.keepChanging(dice.fork(relay.name), storm)),
  ]);
  const plan = dice.fork('plan');
  const paying = payers.run(
    zaps,
    (number) => planZap(plan, number, size),
    () => killer.counts.killsThatHit >= LEAST_HITS,
  );
  await Promise.race([paying, Promise.all([killing, raging])]);
  mercy.abort();
  await killing;
  await pause(STORM_OUTLASTS_MS, end.signal);
  calm.abort();
  await raging;
  signal.throwIfAborted();
  const paidMs = Date.now() - startedAtMs;

  say(`all paid after ${killer.counts.kills} kills; waiting until the relays have every receipt`);
  await waitUntilArrived(run);
  signal.throwIfAborted();
  const settledMs = Date.now() - startedAtMs - paidMs;
  await pause(QUIET_MS, end.signal);

  await checkLists(run, (site.processes[0] as Site['processes'][number]).origin);
  await checkProcesses(run);
  checkReceipts(run);
  checkOutbox(run, await run.outbox.deliveries());
  checkStorm(run);
  return { verdicts: findings.verdicts(), counts: countsOf(run, { paidMs, settledMs }) };
}

async function prepare(
  { database, seed, folder, signal }: RunOptions,
  stack: AsyncDisposableStack,
): Promise<Run> {
  const end = new AbortController();
  signal.addEventListener('abort', () => end.abort(signal.reason));
  const dice = new Dice(`${seed}/zaps/${database}`);
  const findings = new Findings(CHECKS);
  const mint = await TestMint.start();
  stack.defer(() => mint.close());
  const relays = await openRelays();
  stack.defer(async () => {
    await Promise.all(relays.map((relay) => relay.close()));
  });
  const zapSecretKey = generateSecretKey();
  const hexSecretKey = Buffer.from(zapSecretKey).toString('hex');
  const operators = relays.filter(({ isOperators }) => isOperators).map(({ url }) => url);
  const site = await Site.open({
    database,
    folder: path.join(folder, `zaps-${database}`),
    defaultMintUrl: mint.url,
    env: { ZAP_SECRET_KEY: hexSecretKey, ZAP_RELAYS: operators.join(',') },
    onDeath: (description) => findings.note('processes', description),
  });
  stack.use(site);
  stack.defer(() => end.abort());
  const [{ origin }] = site.processes as [Site['processes'][number]];
  const recipients = Array.from({ length: RECIPIENTS }, () => new TestWallet(origin));
  const truth = new Truth(mint, recipients);
  const client = new Client(findings);
  const outbox = new Outbox(site);
  return {
    site,
    relays,
    truth,
    payers: new Payers({ site, relays, truth, client, findings, dice, signal: end.signal }),
    killer: new Killer({ site, relays, truth, outbox }),
    outbox,
    zapPubkey: getPublicKey(zapSecretKey),
    zapSecretKey: hexSecretKey,
    findings,
    dice,
    end,
  };
}

/**
 * Waits until no living relay lacks a receipt and it is written down that they have them (one may have
 * taken a receipt and not said so), or too much time has passed.
 */
async function waitUntilArrived({ truth, relays, outbox, end }: Run): Promise<void> {
  const living = relays.filter(({ isDead }) => !isDead);
  const deadline = Date.now() + SETTLE_DEADLINE_MS;
  let restsEndAt = Date.now();
  let isWritten = false;
  while ((truth.missing().length > 0 || !isWritten) && Date.now() < deadline) {
    if (Date.now() >= restsEndAt) {
      const open = await outbox.endRests();
      isWritten = living.every(({ url }) => !open.has(url));
      restsEndAt = Date.now() + RESTS_END_EVERY_MS;
    }
    if (truth.missing().length === 0) {
      restsEndAt = Math.min(restsEndAt, Date.now() + WRITTEN_WITHIN_MS);
    }
    if (!(await pause(SETTLE_POLL_MS, end.signal))) {
      return;
    }
  }
}

async function checkProcesses({ site, zapSecretKey, findings }: Run): Promise<void> {
  for (const each of site.processes) {
    if (!(await each.stop())) {
      findings.note('processes', `${each.name} did not shut down cleanly`);
    }
    for (const complaint of await each.complaints()) {
      findings.note('processes', `${each.name} logged: ${complaint}`);
    }
    if ((await readFile(each.logFile, 'utf8')).includes(zapSecretKey)) {
      findings.note('secrets', `${each.name} logged the zap key`);
    }
  }
}

/** Checks that the faults happened. Without them the storm would prove nothing. */
function checkStorm({ truth, relays, killer, findings }: Run): void {
  const { kills, killsThatHit } = killer.counts;
  const dead = relays.find(({ isDead }) => isDead);
  const happened: Record<string, number> = {
    kills,
    zaps: truth.zaps.length,
    'unpaid zaps': truth.invoices.filter(({ isPaid }) => !isPaid).length,
    'ordinary payments': truth.invoices.filter(({ zapRequest }) => zapRequest === null).length,
    'attempts at the dead relay': dead?.connectionCount ?? 0,
    'relay mood changes': sumOf(relays.map(({ moodChanges }) => moodChanges)),
    'receipts sent again': repeatsOf(relays),
    'AUTH events': sumOf(relays.map(({ authCount }) => authCount)),
  };
  for (const [name, count] of Object.entries(happened)) {
    if (count === 0) {
      findings.note('storm', `no ${name}`);
    }
  }
  if (killsThatHit < LEAST_HITS) {
    findings.note('storm', `only ${killsThatHit} of ${kills} kills interrupted a delivery`);
  }
}

function countsOf(
  { truth, relays, payers, killer }: Run,
  { paidMs, settledMs }: { paidMs: number; settledMs: number },
): Record<string, string> {
  const { kills, killsThatHit, deliveriesHit } = killer.counts;
  const paid = truth.invoices.filter(({ isPaid }) => isPaid).length;
  return {
    invoices: `${truth.invoices.length}: ${truth.zaps.length} paid zaps, ${paid - truth.zaps.length} other payments; ${payers.retries} requests were retried`,
    receipts: relays.map(({ name, events }) => `${name} ${events.size}`).join(', '),
    'sent again': relays
      .map(({ name, sentCount, events }) => `${name} ${sentCount - events.size}`)
      .join(', '),
    connections: relays.map(({ name, connectionCount }) => `${name} ${connectionCount}`).join(', '),
    kills: `${kills}; ${killsThatHit} of them interrupted ${deliveriesHit} deliveries`,
    time: `storm ${seconds(paidMs)}, everything delivered ${seconds(settledMs)} later`,
  };
}

function repeatsOf(relays: readonly { sentCount: number; events: ReadonlyMap<string, unknown> }[]) {
  return sumOf(relays.map(({ sentCount, events }) => sentCount - events.size));
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
