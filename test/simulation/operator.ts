import type { CommandResult } from '../../src/operator/command.ts';
import { parseCommand } from '../../src/operator/commands.ts';
import { createCommandContext } from '../helpers/service/run-operator-command.ts';
import { FaultPlan } from './faults.ts';
import type { NostrKey } from './recipients.ts';
import { Actor } from './scheduler.ts';
import { SimulatedDatabase } from './simulated-database.ts';
import { wallClockMs } from './virtual-platform.ts';
import type { World } from './world.ts';

/** A time in which payers get no invoice. */
interface Block {
  pubkey: string;
  fromMs: number;
  untilMs: number;
}

/** The operator, who runs commands while the service runs. */
export class Operator {
  readonly #world: World;
  readonly #actor = new Actor('operator');
  readonly #blocks: Block[] = [];

  constructor(world: World) {
    this.#world = world;
  }

  start(): void {
    const { scheduler, random, scenario } = this.#world;
    const repeat = (act: () => Promise<void>) =>
      scheduler.start(this.#actor, async () => {
        const endsAtMs = scheduler.nowMs + scenario.activeMs;
        for (;;) {
          await scheduler.sleep(random.exponential(scenario.activeMs / 6));
          if (scheduler.nowMs > endsAtMs) {
            return;
          }
          await act();
        }
      });
    const recipient = random.pick(this.#world.recipients);
    for (const act of [
      () => this.#block(recipient),
      () => this.#trace(),
      () => this.#moveAway(),
      () => this.#reserveName(),
      () => this.#changeDefaultMint(),
    ]) {
      repeat(act);
    }
  }

  checkInvoices(): void {
    const { truth, referee } = this.#world;
    for (const { pubkey, fromMs, untilMs } of this.#blocks) {
      for (const { recipient, requestedAtMs, receivedAtMs, quoteId } of truth.invoices) {
        const isBlocked = requestedAtMs > fromMs && receivedAtMs < untilMs;
        if (recipient.pubkey === pubkey && isBlocked) {
          referee.report('a blocked recipient gets no invoices', quoteId);
        }
      }
    }
  }

  async #block({ npub, pubkey }: NostrKey): Promise<void> {
    const { scheduler, random, truth } = this.#world;
    truth.blockedUntilMs.set(pubkey, Number.POSITIVE_INFINITY);
    const blocked = await this.#run(['user', 'block', npub, '--reason', 'simulated']);
    const fromMs = scheduler.nowMs + BLOCK_DELAY_MS;
    await scheduler.sleep(random.exponential(60_000));
    const untilMs = scheduler.nowMs;
    const unblocked = await this.#run(['user', 'unblock', npub]);
    if (unblocked?.exitCode === 0) {
      truth.blockedUntilMs.set(pubkey, scheduler.nowMs + BLOCK_DELAY_MS);
    }
    if (blocked?.exitCode === 0) {
      this.#blocks.push({ pubkey, fromMs, untilMs });
    }
    if (blocked?.exitCode === 1 || unblocked?.exitCode === 1) {
      this.#world.referee.report('commands work', 'user block');
    }
  }

  async #reserveName(): Promise<void> {
    const { random, referee } = this.#world;
    const name = `operator${random.integer(0, 3)}`;
    const action = random.pick(['reserve', 'release']);
    const result = await this.#run(['name', action, name]);
    const shown = await this.#run(['name', 'show', name, '--json']);
    if (result?.exitCode === 0 && shown !== null) {
      const { availability } = JSON.parse(shown.stdout);
      if (availability !== (action === 'reserve' ? 'reserved' : 'free')) {
        referee.report('commands work', `${name} is ${availability} after ${action}`);
      }
    }
  }

  /** Restarts one process after the other with another default mint: one that can lock quotes, as `doctor` demands. */
  async #changeDefaultMint(): Promise<void> {
    const { scheduler, random, faults, mints, instances, env, truth, history } = this.#world;
    const locking = mints.filter(({ switches }) => switches.supportsLocking);
    if (locking.length === 0 || !faults.choose('restarts', 0.5)) {
      return;
    }
    const mint = random.pick(locking);
    const chosenAtMs = scheduler.nowMs;
    history.add(this.#actor, () => `chooses ${mint.url} as the default mint`);
    env.DEFAULT_MINT_URL = mint.url;
    const confirm = truth.addDefaultMint(mint, chosenAtMs);
    for (const instance of instances) {
      const isChanged = () => instance.startedAtMs > chosenAtMs && instance.isServing;
      while (!isChanged()) {
        if (faults.isOver) {
          // The operator stops half way: the other processes keep the old mint, so invoices may come from either.
          return;
        }
        if (instance.isServing) {
          await instance.stop();
          this.#world.startInstance(instance);
        }
        await scheduler.sleep(1_000);
      }
    }
    confirm(scheduler.nowMs);
  }

  /** A trace may lack the latest change, but must not contradict what has happened. */
  async #trace(): Promise<void> {
    const { random, truth, referee } = this.#world;
    if (truth.invoices.length === 0) {
      return;
    }
    const invoice = random.pick(truth.invoices);
    const wasListed = invoice.payment !== null && invoice.payment.listedAtMs !== null;
    const result = await this.#run(['trace', invoice.request, '--json']);
    if (result === null) {
      return;
    }
    const trace = JSON.parse(result.stdout);
    const [traced] = trace.payments ?? [];
    const isPaid = ['INFLIGHT', 'PAID', 'ISSUED'].includes(traced?.state);
    const isWrong =
      traced?.amountSat !== invoice.amountSat ||
      traced.pubkey !== invoice.recipient.pubkey ||
      (isPaid && invoice.payment === null) ||
      (wasListed && !isPaid);
    if (isWrong || (traced.quoteId !== undefined && !traced.locked)) {
      referee.report('a trace is true', `${invoice.quoteId}: ${result.stdout}`);
    }
  }

  /** Exports everything while payments arrive, and imports it into another database. */
  async #moveAway(): Promise<void> {
    const { scheduler, random, truth, referee, history } = this.#world;
    const listed = [...truth.paymentsByQuoteId.values()].filter(
      ({ listedAtMs }) => listedAtMs !== null,
    );
    const chunks: Uint8Array[] = [];
    const write = async (text: string) => {
      chunks.push(Buffer.from(text));
      await scheduler.sleep(random.exponential(200));
    };
    const exported = await this.#run(['export'], { write });
    if (exported === null) {
      return;
    }
    const target = new SimulatedDatabase({
      ...this.#world.databaseContext,
      faults: new FaultPlan(
        random,
        () => false,
        () => undefined,
      ),
      file: `${this.#world.databaseContext.file}-imported`,
    });
    try {
      const stdin = (async function* () {
        yield* chunks;
      })();
      const imported = await this.#run(['import'], { stdin }, target);
      if (imported?.exitCode !== 0) {
        referee.report('an archive can be imported', imported?.stderr ?? 'no result');
        return;
      }
      const sql = "select pubkey || ' ' || quote_id as key from quotes where paid_at is not null";
      const found = new Set(target.query<{ key: string }>(sql).map(({ key }) => key));
      history.add(this.#actor, () => `has moved ${found.size} payments`);
      for (const { quoteId, invoice } of listed) {
        if (!found.has(`${invoice.recipient.pubkey} ${quoteId}`)) {
          referee.report('an archive has all payments', `${quoteId} of ${invoice.payer}`);
        }
      }
    } finally {
      target.close();
    }
  }

  /** Returns null if the database is unavailable, so that it is unknown whether the command has changed anything. */
  async #run(
    argv: string[],
    io: { write?: (text: string) => Promise<void>; stdin?: AsyncIterable<Uint8Array> } = {},
    target = this.#world.database,
  ): Promise<CommandResult | null> {
    const { history } = this.#world;
    const run = parseCommand(argv);
    const unused = () => {
      throw new Error('not simulated');
    };
    try {
      const { db } = await target.open(this.#actor);
      const result = await run(
        createCommandContext({ db, clock: wallClockMs }, { ALLOW_PRIVATE_NETWORKS: 'false' }),
        {
          stdin: null,
          write: unused,
          reportProgress: () => undefined,
          ...io,
        },
      );
      history.add(this.#actor, () => `nutpost ${argv.join(' ')} -> ${JSON.stringify(result)}`);
      return result;
    } catch (error) {
      const isOutage =
        target === this.#world.database &&
        ['RequestError', 'OperatorError'].includes((error as Error).name);
      if (!isOutage) {
        throw error;
      }
      history.add(this.#actor, () => `nutpost ${argv.join(' ')} fails: ${String(error)}`);
      return null;
    }
  }
}

/**
 * How long processes may use the state before a change: a query that was sent before it may be answered at the statement
 * timeout, and if the notification is lost, its result is cached for five seconds.
 */
const BLOCK_DELAY_MS = 15_000;
