import type { FastifyInstance } from 'fastify';
import { readConfig } from '../../src/config.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { MachineClock } from './machine-clock.ts';
import { checkReleasedLeases, MAX_RELEASE_MS, MAX_STOP_MS } from './process-checks.ts';
import { Actor, WORLD } from './scheduler.ts';
import type { SimulatedDatabase } from './simulated-database.ts';
import type { SimulatedNetwork } from './simulated-network.ts';
import { wallClockMs } from './virtual-platform.ts';
import type { World } from './world.ts';

/** A place where a process of the service runs. When the process dies, another one is started there. */
export class ServiceInstance {
  readonly name: string;
  readonly #world: World;
  /** The real service, as long as it runs. */
  actor: Actor;
  app: FastifyInstance | null = null;
  #service: Service | null = null;
  #starts = 0;
  /** When its latest process started, and ended. */
  startedAtMs = 0;
  endedAtMs = 0;
  /** What its latest process read at its start: the operator may have changed the default mint since then. */
  defaultMintUrl: string | undefined;
  readonly clock = new MachineClock();

  constructor(name: string, world: World) {
    this.name = name;
    this.#world = world;
    this.actor = new Actor(name);
    this.actor.isAlive = false;
  }

  get isServing(): boolean {
    return this.#service !== null && this.actor.isAlive;
  }

  start(database: SimulatedDatabase, network: SimulatedNetwork): void {
    const { scheduler, history, env } = this.#world;
    this.#starts += 1;
    this.startedAtMs = scheduler.nowMs;
    this.defaultMintUrl = env.DEFAULT_MINT_URL;
    const actor = new Actor(`${this.name}#${this.#starts}`, this.clock);
    this.actor = actor;
    history.add(actor, () => 'starts');
    const config = readConfig(env);
    const starting = async () => {
      try {
        const service = await startService(config, {
          clock: () => wallClockMs(this.clock),
          log: createLogger('info', { write: (line) => this.#world.handleLogLine(actor, line) }),
          database: await database.open(actor),
          egress: network.createEgress(actor),
          listen: async (app) => {
            await app.ready();
            this.app = app;
            return 'http://127.0.0.1:3000';
          },
        });
        this.#service = service;
        history.add(actor, () => 'serves');
      } catch (error) {
        this.#world.handleStartFailure(this, error);
      }
    };
    scheduler.start(actor, starting);
  }

  /** Like kill -9, or a power cut: nothing of the process runs any more. */
  kill(): void {
    this.#world.history.add(this.actor, () => 'is killed');
    this.app = null;
    this.#service = null;
    this.#end();
  }

  /** Ends the process as SIGTERM does. */
  async stop({ endsProcess = true } = {}): Promise<void> {
    const { history, scheduler, referee } = this.#world;
    const service = this.#service;
    const { actor } = this;
    history.add(actor, () => 'stops');
    this.#service = null;
    const { promise, resolve } = Promise.withResolvers<void>();
    actor.onDeath(resolve);
    const startedAtMs = scheduler.nowMs;
    let hasStopped = false;
    const stopping = async () => {
      await service?.stop();
      hasStopped = true;
      const seconds = (scheduler.nowMs - startedAtMs) / 1_000;
      history.add(actor, () => `has stopped in ${seconds.toFixed(3)} s`);
      if (seconds * 1_000 > MAX_STOP_MS && actor.pausedUntilMs < startedAtMs) {
        referee.report('a stop ends in time', `${actor.name} took ${seconds.toFixed(3)} s`);
      }
      if (endsProcess) {
        this.#end();
      }
    };
    scheduler.start(actor, stopping);
    const checkLeases = () => {
      // It may have been killed meanwhile.
      if (hasStopped || actor.isAlive) {
        checkReleasedLeases(this.#world, actor, startedAtMs);
      }
    };
    scheduler.schedule(MAX_RELEASE_MS, checkLeases, WORLD);
    await promise;
  }

  #end(): void {
    this.endedAtMs = this.#world.scheduler.nowMs;
    this.actor.die();
  }
}
