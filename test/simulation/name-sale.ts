import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { readConfig } from '../../src/config.ts';
import { parseCommand } from '../../src/operator/commands.ts';
import { type Story, startStory } from './buyers.ts';
import { MoneyReferee } from './money-referee.ts';
import { Actor, WORLD } from './scheduler.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import { wallClockMs } from './virtual-platform.ts';
import type { World } from './world.ts';

export const TREASURY_SECRET = 'the treasury secret of the simulation';

/** The sale of usernames, with its buyers, the mint's changes, and the operator who withdraws the earnings. */
export class NameSale {
  readonly world: World;
  readonly random: SeededRandom;
  readonly mint: SimulatedMint;
  readonly priceSat: number;
  readonly stories: Story[] = [];
  /** The tokens that `treasury withdraw` has printed. */
  readonly withdrawnTokens: string[] = [];
  readonly referee: MoneyReferee;

  constructor(world: World, random: SeededRandom) {
    this.world = world;
    this.random = random;
    this.mint = random.pick(world.mints);
    this.priceSat = random.pick([8, 8, 20, 64, 100, 1]);
    this.referee = new MoneyReferee(this);
  }

  /** The settings of the service. */
  get env() {
    return {
      USERNAME_PRICE_SAT: String(this.priceSat),
      USERNAME_MINT_URL: this.mint.url,
      TREASURY_SECRET,
    };
  }

  start(): void {
    const { world, random } = this;
    const { activeMs, sales } = world.scenario;
    for (let number = 0; number < sales; number += 1) {
      this.#at(random.between(0, activeMs), () => this.stories.push(startStory(this, number)));
    }
    const withdrawalCount = random.integer(0, 5);
    for (let number = 0; number < withdrawalCount; number += 1) {
      this.#at(random.between(0, activeMs + 60_000), () => this.#withdraw(number));
    }
    const rotationCount = world.faults.has('mint rotates keysets') ? random.integer(1, 4) : 0;
    for (let number = 0; number < rotationCount; number += 1) {
      this.#at(random.between(0, activeMs), () => this.mint.rotateKeyset());
    }
  }

  /** Whether no purchase is open, and no buyer waits for a response. */
  isQuiet(): boolean {
    const isWaiting = this.stories.some(({ attempts }) =>
      attempts.some(({ final, hasGivenUp }) => final === null && !hasGivenUp),
    );
    return !isWaiting && this.#listOpenPurchases().length === 0;
  }

  /** Compares names and ecash, which takes less than a minute. Call this when it is quiet, or too late. */
  async check(): Promise<void> {
    const { scheduler, referee } = this.world;
    for (const purchase of this.#listOpenPurchases()) {
      referee.report('purchases end', JSON.stringify(purchase));
    }
    let isDone = false;
    scheduler.start(new Actor('auditor'), async () => {
      await this.referee.checkAll();
      isDone = true;
    });
    await scheduler.runUntil(scheduler.nowMs + 60_000);
    if (!isDone) {
      referee.report('names can be read', 'the audit did not end within a minute');
    }
  }

  /** Runs an operator's command, as another process does. Null: the database failed. */
  async runTreasuryCommand(actor: Actor, args: string[]): Promise<string | null> {
    const { database, history, env } = this.world;
    try {
      const { db } = await database.open(actor);
      const context = { config: readConfig(env), db, systemUser: 'root', clock: wallClockMs };
      const run = parseCommand(['treasury', ...args]);
      const { stdout, stderr } = await run(context, undefined as never);
      history.add(actor, () => `treasury ${args.join(' ')}: ${stderr}`);
      return stdout.trim();
    } catch (error) {
      history.add(actor, () => `treasury ${args.join(' ')} fails: ${String(error)}`);
      return null;
    }
  }

  #withdraw(number: number): void {
    const { world, random, priceSat } = this;
    const actor = new Actor(`operator-${number}`);
    const amount = ['--amount', String(random.integer(1, 3 * priceSat))];
    const options = random.pick([[], amount, ['--mint', this.mint.url]]);
    world.scheduler.start(actor, async () => {
      const token = await this.runTreasuryCommand(actor, ['withdraw', ...options]);
      if (token) {
        this.withdrawnTokens.push(token);
      }
    });
    if (random.chance(0.3)) {
      world.scheduler.schedule(random.exponential(2), () => actor.die(), WORLD);
    }
  }

  #listOpenPurchases(): object[] {
    const open = "select name, attempts, reason from username_purchases where state = 'open'";
    return this.world.database.query(open);
  }

  #at(delayMs: number, happen: () => void): void {
    this.world.scheduler.schedule(delayMs, happen, WORLD);
  }
}
