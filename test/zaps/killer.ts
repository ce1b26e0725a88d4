import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { pause } from '../faults/client.ts';
import type { ServiceProcess } from '../faults/service-process.ts';
import type { Site } from '../faults/site.ts';
import type { Outbox } from './outbox.ts';
import type { StormRelay } from './relays.ts';
import type { Truth } from './truth.ts';

/**
 * From the last start to the next kill, in starts: a busy machine takes longer for one, and in a life of
 * a process something is to be sent.
 */
const SHORTEST_LIFE = 0.3;
const LONGEST_LIFE = 1.5;
const SHORTEST_START_MS = 1_000;

/** Then it is waited for a moment at which something is on its way, this long at most. */
const LONGEST_WAIT_MS = 1_000;
const LOOK_MS = 5;

/** So long after that: a receipt is made, sent and answered within milliseconds, or takes its time. */
const LONGEST_DELAYS_MS = [3, 30, 300] as const;

const LONGEST_ABSENCE_MS = 500;

/** Kills processes while receipts are made and sent. */
export class Killer {
  readonly #site: Site;
  readonly #relays: readonly StormRelay[];
  readonly #truth: Truth;
  readonly #outbox: Outbox;
  readonly #counts = { kills: 0, killsThatHit: 0, deliveriesHit: 0 };

  constructor(parts: {
    site: Site;
    relays: readonly StormRelay[];
    truth: Truth;
    outbox: Outbox;
  }) {
    this.#site = parts.site;
    this.#relays = parts.relays;
    this.#truth = parts.truth;
    this.#outbox = parts.outbox;
  }

  /** Kills, those at a time when receipts were missing at living relays, and how many were, in all. */
  get counts(): Readonly<{ kills: number; killsThatHit: number; deliveriesHit: number }> {
    return this.#counts;
  }

  /** Kills one process after the other until the signal, and starts each again; then all are up. */
  async run(dice: Dice, signal: AbortSignal): Promise<void> {
    let startMs = SHORTEST_START_MS;
    while (await pause(startMs * dice.between(SHORTEST_LIFE, LONGEST_LIFE), signal)) {
      const victim = dice.pick(this.#site.processes);
      await this.#untilBusy(dice, signal);
      await this.#kill(victim);
      await pause(dice.between(0, LONGEST_ABSENCE_MS), signal);
      const startedAtMs = Date.now();
      victim.start();
      await victim.ready();
      startMs = Math.max(SHORTEST_START_MS, Date.now() - startedAtMs);
    }
  }

  async #kill(victim: ServiceProcess): Promise<void> {
    const { pid } = victim;
    const missing = this.#truth.missing().length;
    await victim.kill();
    this.#counts.kills += 1;
    this.#counts.killsThatHit += missing > 0 ? 1 : 0;
    this.#counts.deliveriesHit += missing;
    await this.#outbox.buryProcess(pid);
  }

  /** Waits for the next payment, or for the next receipt that a relay is sent. */
  async #untilBusy(dice: Dice, signal: AbortSignal): Promise<void> {
    const isAtPayment = dice.happens(0.5);
    const count = () =>
      isAtPayment
        ? this.#truth.zaps.length
        : this.#relays.reduce((sum, { sentCount }) => sum + sentCount, 0);
    const before = count();
    const waitUntil = Date.now() + LONGEST_WAIT_MS;
    while (count() === before && Date.now() < waitUntil) {
      await pause(LOOK_MS, signal);
    }
    const [longest = 0] = dice.shuffled([...LONGEST_DELAYS_MS]);
    await pause(dice.between(0, longest), signal);
  }
}
