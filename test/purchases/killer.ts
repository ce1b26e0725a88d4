import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { pause } from '../faults/client.ts';
import type { ServiceProcess } from '../faults/service-process.ts';
import type { Site } from '../faults/site.ts';
import type { Buyers } from './buyers.ts';
import type { Journal } from './journal.ts';
import type { PurchaseMint } from './mint.ts';
import type { Claim } from './truth.ts';

/** Most kills come once the mint was asked to redeem a token; the others at any time of a request. */
const AT_REDEMPTION_SHARE = 0.75;

/** A mint that rests, or recovery that only looks, leaves no redemption to wait for. */
const LONGEST_WAIT_MS = 1_000;

/** So long after that: many swaps take longer (`mint.ts`), and others are over at once. */
const LONGEST_DELAYS_MS = [5, 40, 200] as const;

/** A process that is killed is back soon. */
const LONGEST_ABSENCE_MS = 300;

/** How often it is looked whether a process is at a purchase. */
const LOOK_MS = 5;

/** What {@link Killer} needs. */
interface KillerParts {
  site: Site;
  buyers: Buyers;
  journal: Journal;
  mint: PurchaseMint;
}

/** Kills processes while they are at purchases, and looks at what they left behind. */
export class Killer {
  readonly #parts: KillerParts;
  /** A run that was hit once is counted once. */
  readonly #seenRuns = new Set<string>();
  readonly #counts = { kills: 0, killsThatHit: 0, purchasesHit: 0, redeemedAlready: 0 };
  #begun = 0;

  constructor(parts: KillerParts) {
    this.#parts = parts;
  }

  /**
   * Kills, those that found at least one purchase open and being worked on in the process, how many
   * purchases these were, and of how many the mint had redeemed the token already.
   */
  get counts(): Readonly<{
    kills: number;
    killsThatHit: number;
    purchasesHit: number;
    redeemedAlready: number;
  }> {
    return this.#counts;
  }

  /**
   * Kills all processes in turns, so often in all and then until it is enough, and starts each again;
   * then all are up.
   */
  async run(
    kills: number,
    isEnough: () => boolean,
    dice: Dice,
    signal: AbortSignal,
  ): Promise<void> {
    const { processes } = this.#parts.site;
    const haunt = async (victim: ServiceProcess) => {
      const own = dice.fork(victim.name);
      while ((this.#begun < kills || !isEnough()) && !signal.aborted) {
        this.#begun += 1;
        await this.#killOnce(victim, own, signal);
      }
    };
    await Promise.all(processes.map(haunt));
  }

  async #killOnce(victim: ServiceProcess, dice: Dice, signal: AbortSignal): Promise<void> {
    const { buyers } = this.#parts;
    await this.#untilBusy(victim, dice, signal);
    if (signal.aborted) {
      return;
    }
    const struck = buyers.underWayAt(victim.origin);
    await victim.kill();
    this.#counts.kills += 1;
    await this.#countHits(struck);
    await pause(dice.between(0, LONGEST_ABSENCE_MS), signal);
    victim.start();
    await victim.ready();
  }

  /** Waits for a moment at which a process has purchases to answer. */
  async #untilBusy({ origin }: ServiceProcess, dice: Dice, signal: AbortSignal): Promise<void> {
    const { buyers, mint } = this.#parts;
    const isBusy = () => buyers.underWayAt(origin).length > 0;
    do {
      const swapsBefore = mint.swapCount;
      const waitUntil = Date.now() + (dice.happens(AT_REDEMPTION_SHARE) ? LONGEST_WAIT_MS : 0);
      const isTime = () => mint.swapCount > swapsBefore || Date.now() >= waitUntil;
      while (!isBusy() || !isTime()) {
        if (!(await pause(LOOK_MS, signal))) {
          return;
        }
      }
      const [longest = 0] = dice.shuffled([...LONGEST_DELAYS_MS]);
      await pause(dice.between(0, longest), signal);
    } while (!isBusy() && !signal.aborted);
  }

  /** What a process left open is what its journal says of the claims that it had not answered. */
  async #countHits(struck: readonly Claim[]): Promise<void> {
    const { journal, mint } = this.#parts;
    const proofs = new Map(
      struck.flatMap(({ token }) => token.ys.map((y, index) => [y, token.proofs[index]])),
    );
    const hit = (await journal.driven()).filter(
      ({ ys, driver }) => ys.some((y) => proofs.has(y)) && !this.#seenRuns.has(driver),
    );
    for (const { driver } of hit) {
      this.#seenRuns.add(driver);
    }
    const first = hit.flatMap(({ ys }) => proofs.get(ys[0] ?? '') ?? []);
    this.#counts.killsThatHit += hit.length > 0 ? 1 : 0;
    this.#counts.purchasesHit += hit.length;
    this.#counts.redeemedAlready += first.length === 0 ? 0 : (await mint.spentOf(first)).length;
  }
}
