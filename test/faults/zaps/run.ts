import { hostname } from 'node:os';
import { sql } from 'kysely';
import { generateSecretKey, getPublicKey } from 'nostr-tools';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { TestWallet } from '../../helpers/wallet.ts';
import { zapQuery, zapRequest } from '../../helpers/zap-requests.ts';
import { pause } from '../client.ts';
import {
  askInvoice,
  checkProcesses,
  missingOf,
  openStorm,
  type StormOptions,
  type StormResult,
  seconds,
} from '../storm.ts';
import {
  CHECKS,
  checkLists,
  checkOutbox,
  checkReceipts,
  type Delivery,
  type Evidence,
} from './checks.ts';
import { StormRelay } from './relays.ts';
import { type HeldInvoice, Truth } from './truth.ts';

const RECIPIENTS = 12;
const MAX_AMOUNT_SAT = 5_000;

/** Of all payments: those without a zap request, and those that are never made. */
const ORDINARY_SHARE = 0.08;
const UNPAID_SHARE = 0.12;
const LONGEST_PATIENCE_MS = 1_000;

/** Between one payer and the next. */
const ARRIVAL_INTERVAL_MS = 120;

/** Kills that must interrupt a delivery, and when the storm has failed without them. */
const LEAST_HITS = 3;
const STORM_DEADLINE_MS = 120_000;

/** From a start to the next kill, in start times: a busy machine takes longer to start a process. */
const SHORTEST_LIFE = 0.3;
const LONGEST_LIFE = 1.5;
const SHORTEST_START_MS = 1_000;

/** The killer waits this long for a payment or a receipt, and then for one of the delays. */
const LONGEST_WAIT_MS = 1_000;
const LONGEST_DELAYS_MS = [3, 30, 300] as const;
const LOOK_MS = 5;

const LONGEST_ABSENCE_MS = 500;

/** The backoff of relays and receipts ends this often. */
const RESTS_LAST_MS = 1_500;
const FINAL_RESTS_LAST_MS = 12_000;

/** The relays keep failing for this long after the last process is up again. */
const STORM_OUTLASTS_MS = 5_000;

/** How long delivery may take when the relays are well: claims of a dead process end after 30 s. */
const SETTLE_DEADLINE_MS = 120_000;
const SETTLE_POLL_MS = 200;

/** What a relay has already is recorded in this time. */
const RECORDED_WITHIN_MS = 3_000;

/** A second receipt of the same payment would follow within this time. */
const QUIET_MS = 2_000;

interface Run extends Evidence {
  zapSecretKey: string;
  /** Kills while live relays lacked receipts. */
  hits: number;
}

/**
 * Runs the zaps storm: payers, relays that fail, and a service whose processes are killed while receipts
 * are made and sent. Then checks that every live relay has every receipt exactly once.
 *
 * @throws if a process cannot be started again, or the signal aborts
 */
export async function runZapStorm(options: StormOptions): Promise<StormResult> {
  const { say } = options;
  await using stack = new AsyncDisposableStack();
  const run = await open(options, stack);
  const { site, relays, truth, findings, dice, signal } = run;

  say(`${options.zaps} invoices, ${relays.length} relays`);
  const startedAtMs = Date.now();
  const mercy = new AbortController();
  const calm = new AbortController();
  const killing = keepKilling(run, AbortSignal.any([mercy.signal, signal]));
  const stormSignal = AbortSignal.any([calm.signal, signal]);
  const raging = Promise.all([
    keepEndingBackoff(run, stormSignal),
    ...relays.map((relay) => relay.keepChanging(dice.fork(relay.name), stormSignal)),
  ]);
  await Promise.race([payAll(run, options.zaps), Promise.all([killing, raging])]);
  mercy.abort();
  await killing;
  await pause(STORM_OUTLASTS_MS, signal);
  calm.abort();
  await raging;
  const paidMs = Date.now() - startedAtMs;

  say(`all paid after ${site.kills} kills; waiting until the relays have every receipt`);
  await waitUntilDelivered(run);
  const settledMs = Date.now() - startedAtMs - paidMs;
  await pause(QUIET_MS, signal);
  signal.throwIfAborted();

  await checkLists(run);
  await checkProcesses(run, (log) => (log.includes(run.zapSecretKey) ? ['the zap key'] : []));
  checkReceipts(run);
  checkOutbox(
    run,
    await site.withDatabase(async ({ db }) => {
      const query = sql<Delivery>`select receipt, relay, state from zap_receipt_deliveries`;
      return (await query.execute(db)).rows;
    }),
  );
  const sum = (of: (relay: StormRelay) => number) =>
    relays.reduce((total, relay) => total + of(relay), 0);
  const repeats = sum(({ sentCount, relay }) => sentCount - relay.events.size);
  for (const missing of missingOf({
    [`${LEAST_HITS} kills that interrupted a delivery`]: run.hits < LEAST_HITS ? 0 : 1,
    zaps: truth.zaps.length,
    'unpaid invoices': truth.invoices.filter(({ isPaid }) => !isPaid).length,
    'ordinary payments': truth.invoices.filter(({ zapRequest: zap }) => zap === null).length,
    'attempts at the dead relay': sum(({ isDead, relay }) =>
      isDead ? relay.connections.opened : 0,
    ),
    'relay mood changes': sum(({ moodChanges }) => moodChanges),
    'receipts sent again': repeats,
    'AUTH events': sum(({ relay }) => relay.authEvents.length),
  })) {
    findings.note('storm', missing);
  }
  return {
    verdicts: findings.verdicts(),
    counts: {
      invoices: `${truth.invoices.length}: ${truth.zaps.length} paid zaps, ${run.retries} retries`,
      receipts: relays.map(({ name, relay }) => `${name} ${relay.events.size}`).join(', '),
      'sent again': `${repeats}`,
      kills: `${site.kills}; ${run.hits} of them interrupted a delivery`,
      time: `storm ${seconds(paidMs)}, everything delivered ${seconds(settledMs)} later`,
    },
  };
}

async function open(options: StormOptions, stack: AsyncDisposableStack): Promise<Run> {
  const mint = await TestMint.start();
  stack.defer(() => mint.close());
  const relays = await StormRelay.openAll();
  stack.defer(async () => {
    await Promise.all(relays.map(({ relay }) => relay.close()));
  });
  const secretKey = generateSecretKey();
  const zapSecretKey = Buffer.from(secretKey).toString('hex');
  const operators = relays.filter(({ manner }) => manner.isOperators).map(({ url }) => url);
  const storm = await openStorm('zaps', options, stack, {
    checks: CHECKS,
    defaultMintUrl: mint.url,
    env: { ZAP_SECRET_KEY: zapSecretKey, ZAP_RELAYS: operators.join(',') },
  });
  const origin = storm.site.processes[0]?.origin ?? '';
  const recipients = Array.from({ length: RECIPIENTS }, () => new TestWallet(origin));
  const truth = new Truth(mint, recipients);
  const zapPubkey = getPublicKey(secretKey);
  return Object.assign(storm, { relays, truth, zapPubkey, zapSecretKey, hits: 0 });
}

/** Payers arrive at a steady rate: this many, and then until enough kills hit a delivery. */
async function payAll(run: Run, zaps: number): Promise<void> {
  const deadline = Date.now() + STORM_DEADLINE_MS;
  const paying: Promise<void>[] = [];
  const isOver = () => paying.length >= zaps && (run.hits >= LEAST_HITS || Date.now() > deadline);
  while (!isOver() && (await pause(ARRIVAL_INTERVAL_MS, run.signal))) {
    paying.push(pay(run, paying.length + 1));
  }
  await Promise.all(paying);
}

/** Pays one invoice. Its choices do not depend on the other payers. */
async function pay(run: Run, number: number): Promise<void> {
  const { truth, relays, findings, signal } = run;
  const dice = run.dice.fork(`zap ${number}`);
  const recipient = dice.pick(truth.recipients);
  const amountMsat = (1 + Math.floor(dice.roll() * MAX_AMOUNT_SAT)) * 1000;
  // One of each comes first, so that none is missing.
  const isZap = number !== 1 && !dice.happens(ORDINARY_SHARE);
  const isPaid = number !== 2 && !dice.happens(UNPAID_SHARE);
  const named = dice.shuffled(relays).slice(0, 1 + Math.floor(dice.roll() * relays.length));
  const request = zapRequest({
    recipient: recipient.pubkey,
    amountMsat,
    relays: named.map(({ url }) => url),
    comment: `zap ${number} ⚡ "verbatim"`,
  }).text;
  const query = isZap ? zapQuery(request, amountMsat) : `amount=${amountMsat}`;
  const invoice = await askInvoice(run, number, `/.well-known/lnurlp/${recipient.npub}?${query}`);
  if (invoice === null) {
    return;
  }
  const held: HeldInvoice = {
    number,
    recipient,
    request: invoice.pr,
    zapRequest: isZap ? request : null,
    relays: isZap
      ? relays.filter((relay) => relay.manner.isOperators || named.includes(relay))
      : [],
    isPaid: false,
  };
  truth.hold(held);
  if (!isPaid || !(await pause(dice.between(0, LONGEST_PATIENCE_MS), signal))) {
    return;
  }
  try {
    truth.pay(held);
  } catch {
    findings.note('served', `zap ${number}: the mint does not know its invoice`);
  }
}

/** Kills one process after the other until the signal, and starts each again. Then all are up. */
async function keepKilling(run: Run, signal: AbortSignal): Promise<void> {
  const { site, truth } = run;
  const dice = run.dice.fork('kills');
  let startMs = SHORTEST_START_MS;
  while (await pause(startMs * dice.between(SHORTEST_LIFE, LONGEST_LIFE), signal)) {
    const victim = dice.pick(site.processes);
    await waitUntilBusy(run, dice, signal);
    const { pid } = victim;
    run.hits += truth.missing().length > 0 ? 1 : 0;
    await site.kill(victim);
    await expireClaims(run, pid);
    await pause(dice.between(0, LONGEST_ABSENCE_MS), signal);
    const startedAtMs = Date.now();
    await site.restart(victim, 0, signal);
    startMs = Math.max(SHORTEST_START_MS, Date.now() - startedAtMs);
  }
}

/** Waits for the next payment, or for the next receipt that reaches a relay. */
async function waitUntilBusy(run: Run, dice: Dice, signal: AbortSignal): Promise<void> {
  const isAtPayment = dice.happens(0.5);
  const count = () =>
    isAtPayment
      ? run.truth.zaps.length
      : run.relays.reduce((sum, { sentCount }) => sum + sentCount, 0);
  const before = count();
  const waitUntil = Date.now() + LONGEST_WAIT_MS;
  while (count() === before && Date.now() < waitUntil) {
    await pause(LOOK_MS, signal);
  }
  await pause(dice.between(0, dice.pick(LONGEST_DELAYS_MS)), signal);
}

/**
 * Makes a process look as if it had died long ago, so that others take over its mints and claims. A
 * living process's claims end too, so some receipts are sent twice. Does nothing on the embedded
 * database, whose one process waits for its claims to end.
 */
async function expireClaims({ site }: Run, pid: number | null): Promise<void> {
  if (!site.isEmbedded) {
    await site.withDatabase(async ({ db }) => {
      await sql`
        update watch_processes set alive_until = 0
        where id like ${`${hostname()}-${pid}-%`}
      `.execute(db);
      await sql`update zap_receipt_deliveries set next_try_at = 0 where state = 'open'`.execute(db);
    });
  }
}

/** Lets more be tried in a short time. Not on an embedded database, which would have to stop. */
async function keepEndingBackoff(run: Run, signal: AbortSignal): Promise<void> {
  while (await pause(RESTS_LAST_MS, signal)) {
    if (!run.site.isEmbedded) {
      await endBackoff(run);
    }
  }
}

/** Ends the backoff of all relays and receipts. @returns the relays with open deliveries */
async function endBackoff({ site }: Run): Promise<ReadonlySet<string>> {
  return await site.interrupted(async ({ db }) => {
    await sql`update relays set rest_until = null`.execute(db);
    const { rows } = await sql<{ relay: string }>`
      update zap_receipt_deliveries set next_try_at = 0 where state = 'open' returning relay
    `.execute(db);
    return new Set(rows.map(({ relay }) => relay));
  });
}

/** Waits until every live relay has its receipts, and the outbox says so. */
async function waitUntilDelivered(run: Run): Promise<void> {
  const { truth, relays, signal } = run;
  const deadline = Date.now() + SETTLE_DEADLINE_MS;
  let restsEndAt = Date.now();
  let isRecorded = false;
  while ((truth.missing().length > 0 || !isRecorded) && Date.now() < deadline) {
    if (Date.now() >= restsEndAt) {
      const open = await endBackoff(run);
      isRecorded = relays.every(({ url, isDead }) => isDead || !open.has(url));
      restsEndAt = Date.now() + FINAL_RESTS_LAST_MS;
    }
    if (truth.missing().length === 0) {
      restsEndAt = Math.min(restsEndAt, Date.now() + RECORDED_WITHIN_MS);
    }
    await pause(SETTLE_POLL_MS, signal);
    signal.throwIfAborted();
  }
}
