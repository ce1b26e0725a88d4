import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { Actor } from './scheduler.ts';

/** All kinds of faults. Each seed switches on some of them, with rates of its own. */
export const FAULT_KINDS = [
  // The database.
  'slow database',
  'failed commit',
  'lost answer to a commit',
  'ambiguous commit',
  'database gone',
  'database read-only',
  'disk full',
  'lost notifications',
  'late notifications',
  'repeated notifications',
  // The processes of the service.
  'killed processes',
  'power cuts',
  'restarts',
  'suspended processes',
  'clock steps',
  'clock drift',
  // The network between processes and mints, relays and clients.
  'lost requests',
  'lost answers',
  'late requests',
  'repeated requests',
  'broken sockets',
  'silent sockets',
  'refused sockets',
  // Mints.
  'mint errors',
  'mint sends garbage',
  'mint is silent',
  'mint is late',
  'stray 429',
  'mint shuffles batches',
  'mint loses messages',
  'mint repeats messages',
  'mint sends stale states',
  'mint rejects sockets',
  'mint limits requests',
  'mint reports impossible states',
  'mint is slow to swap',
  'mint rotates keysets',
  'mint loses its batch route',
  'mint restarts',
  'mint is gone for a while',
  // Relays.
  'relay restarts',
  'relay is gone for a while',
  'relay rejects sockets',
  'relay refuses events for ever',
  'relay limits events',
  'relay has errors',
  'relay is silent',
  'relay is late',
  'relay closes sockets',
  'relay repeats answers',
  'relay sends garbage',
  'relay forgets sessions',
  // Shops, which get webhooks. Last, so that they do not change which other kinds a seed switches on.
  'shop has errors',
  'shop is slow',
  'shop is silent',
  'shop asks to wait',
  'shop is gone for a while',
] as const;

/** What a process does between two awaits. Faults can be aimed at it, because few random times hit such moments. */
export const PROCESS_STEPS = [
  'sends a request',
  'receives a response',
  'receives a message',
  'learns of a payment',
  'queries the database',
  'sends a commit',
  'has committed',
  'receives a notification',
  'receives a client request',
  'answers a client',
] as const;

export type ProcessStep = (typeof PROCESS_STEPS)[number];

export type FaultKind = (typeof FAULT_KINDS)[number];

/** Which faults happen. They stop at a certain time, so that the referee can check that everything recovers. */
export class FaultPlan {
  /** Each kind has random numbers of its own, so that the others stay the same if it is left out. */
  readonly #kinds = new Map<FaultKind, { factor: number; random: SeededRandom }>();
  readonly #onFault: (kind: FaultKind, place: string | null) => void;
  isOver = false;
  readonly counts = new Map<FaultKind, number>();
  #target: { step: ProcessStep; countdown: number; strike: (process: Actor) => void } | null = null;

  /** @param isAllowed whether a kind may happen, to find out which a failure needs */
  constructor(
    random: SeededRandom,
    isAllowed: (kind: FaultKind) => boolean,
    onFault: (kind: FaultKind, place: string | null) => void,
  ) {
    this.#onFault = onFault;
    // Some seeds have few kinds of faults and others many: a fault can hide another.
    const share = random.pick([0, 0.1, 0.25, 0.5, 0.8]);
    for (const kind of FAULT_KINDS) {
      const isOn = random.chance(share);
      const factor = random.pick([0.2, 1, 1, 5]);
      if (isOn && isAllowed(kind)) {
        this.#kinds.set(kind, { factor, random: random.fork(kind) });
      }
    }
  }

  get kinds(): FaultKind[] {
    return [...this.#kinds.keys()];
  }

  has(kind: FaultKind): boolean {
    return this.#kinds.has(kind);
  }

  /**
   * Decides whether a fault happens now.
   *
   * @param rate its usual probability
   * @param place the only host that it concerns, or `clients`
   */
  choose(kind: FaultKind, rate: number, place: string | null = null): boolean {
    const chosen = this.#kinds.get(kind);
    if (chosen === undefined || this.isOver) {
      return false;
    }
    const { factor, random } = chosen;
    if (!random.chance(Math.min(rate * factor, 0.9))) {
      return false;
    }
    this.record(kind, place);
    return true;
  }

  /** Counts a fault that happens for another reason than chance. */
  record(kind: FaultKind, place: string | null = null): void {
    this.#onFault(kind, place);
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
  }

  /** Calls `strike` when processes have taken so many more of these steps. Replaces an earlier aim. */
  aim(step: ProcessStep, countdown: number, strike: (process: Actor) => void): void {
    this.#target = { step, countdown, strike };
  }

  recordStep(step: ProcessStep, process: Actor): void {
    const target = this.#target;
    if (target?.step === step && !this.isOver) {
      target.countdown -= 1;
      if (target.countdown === 0) {
        this.#target = null;
        target.strike(process);
      }
    }
  }
}
