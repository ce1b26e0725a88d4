import type { FaultKind } from './faults.ts';
import type { MachineClock } from './machine-clock.ts';
import { RESTART_MS, TAKEOVER_MS } from './promises.ts';
import type { ServiceInstance } from './service-instance.ts';
import type { Payment } from './truth.ts';
import type { World } from './world.ts';

/** Notes when something last failed. The rules are stricter at times when nothing has. */
export class Health {
  readonly #world: World;
  /** By the clock of the machine: when a process was last suspended, or its clock wrong. */
  readonly #disturbedAtMs = new Map<MachineClock, number>();
  /** When something last failed at a host, with clients, or (null) anywhere else. */
  readonly #failedAtMs = new Map<string | null, number>();
  /** How many faults each mint has had that it chooses itself. */
  readonly #chaosCounts = new Map<string, number>();
  #databaseFaultAtMs = Number.NEGATIVE_INFINITY;

  constructor(world: World) {
    this.#world = world;
  }

  recordFault(kind: FaultKind, place: string | null): void {
    const { nowMs } = this.#world.scheduler;
    if (!HARMLESS.test(kind)) {
      this.#failedAtMs.set(place, nowMs);
    }
    if (/database|commit|disk/.test(kind)) {
      this.#databaseFaultAtMs = nowMs;
    }
  }

  /** Whether no query has failed, or was slow, since a time. */
  hasDatabaseWorked(sinceMs: number): boolean {
    return Math.max(this.#databaseFaultAtMs, this.#world.database.lastFailureMs) < sinceMs;
  }

  /** Finds faults that last, or are recorded elsewhere. Called every second, and before each use. */
  sample(): void {
    const { scheduler, instances, mints, database } = this.#world;
    const { nowMs } = scheduler;
    for (const { actor, clock } of instances) {
      if (actor.pausedUntilMs > nowMs || isWrong(clock, nowMs)) {
        this.#disturbedAtMs.set(clock, nowMs);
      }
    }
    if (database.condition !== 'working' || isWrong(database.clock, nowMs)) {
      this.#failedAtMs.set(null, nowMs);
    }
    for (const { host, actor, state } of mints) {
      const counts = Object.entries(state.chaos.counts).filter(([kind]) => !HARMLESS.test(kind));
      const count = counts.reduce((sum, [, times]) => sum + times, 0);
      if (!actor.isAlive || count > (this.#chaosCounts.get(host) ?? 0)) {
        this.#failedAtMs.set(host, nowMs);
      }
      this.#chaosCounts.set(host, count);
    }
  }

  /** Whether a process was suspended since a time, or had a wrong clock. */
  isDisturbed(sinceMs: number): boolean {
    this.sample();
    return this.#world.instances.some(
      ({ clock }) => (this.#disturbedAtMs.get(clock) ?? Number.NEGATIVE_INFINITY) >= sinceMs,
    );
  }

  /** Whether nothing has failed until now that could delay this payment. */
  isHealthy({ invoice, paidAtMs }: Payment): boolean {
    const { instances, network, database } = this.#world;
    const { host, switches } = invoice.mint;
    const sinceMs = paidAtMs - QUIET_MS;
    const isSettled = (atMs: number) => atMs === 0 || atMs < paidAtMs - RESTART_MS;
    const isReady = ({ isServing, startedAtMs, actor }: ServiceInstance) =>
      isServing && isSettled(startedAtMs) && isSettled(actor.pausedUntilMs);
    const isReplaced = ({ actor, endedAtMs }: ServiceInstance) =>
      !actor.isAlive && endedAtMs < paidAtMs - TAKEOVER_MS;
    const areServing =
      instances.some(isReady) && instances.every((each) => isReady(each) || isReplaced(each));
    // Polls depend on the age of a quote.
    const areClocksRight = switches.hasWebSocket || !this.isDisturbed(sinceMs);
    const hasFailed = [host, null].some(
      (place) => (this.#failedAtMs.get(place) ?? Number.NEGATIVE_INFINITY) >= sinceMs,
    );
    // After several failures, the service opens a socket again only much later.
    const hasSocket = [...network.openSockets].some(
      ({ hostName, isSilent, openedAtMs }) =>
        hostName === host && !isSilent && openedAtMs < paidAtMs - 5_000,
    );
    return (
      areServing &&
      areClocksRight &&
      !hasFailed &&
      database.lastFailureMs < sinceMs &&
      (hasSocket || !switches.hasWebSocket || !this.#failedAtMs.has(host))
    );
  }
}

function isWrong(clock: MachineClock, nowMs: number): boolean {
  return Math.abs(clock.readOffsetMs(nowMs)) > MAX_DRIFT_MS;
}

/** Longer than a slow query or a late message takes, and until the service has noticed lost requests and notifications. */
const QUIET_MS = 20_000;

/** A clock that drifts is wrong by less. */
export const MAX_DRIFT_MS = 1_000;

/** Kinds of faults that delay no payment, and clock faults, which are looked for. */
const HARMLESS = /^relay|^shop|^clock|repeated|shuffle|keysets|slow to swap/;
