import { type FaultKind, PROCESS_STEPS, type ProcessStep } from './faults.ts';
import { type Actor, WORLD } from './scheduler.ts';
import type { ServiceInstance } from './service-instance.ts';
import type { Shop } from './shops.ts';
import type { DatabaseCondition } from './simulated-database.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import type { SimulatedRelay } from './simulated-relay.ts';
import type { World } from './world.ts';

/** Faults that last: processes, the database and mints that are gone for a while. Each repeats at random times. */
export function startFaults(world: World): void {
  const { random, mints, relays, shops } = world;
  repeat(world, 'killed processes', 30_000, () => strike(world, killProcess));
  repeat(world, 'power cuts', 120_000, () => strike(world, cutPower));
  repeat(world, 'suspended processes', 60_000, () =>
    strike(world, suspendProcess, ['learns of a payment']),
  );
  repeat(world, 'restarts', 60_000, () => {
    const instance = random.pick(world.instances);
    if (instance.isServing) {
      void instance.stop().then(() => restartLater(world, instance));
    }
  });
  for (const [kind, condition] of [
    ['database gone', 'gone'],
    ['database read-only', 'read-only'],
    ['disk full', 'full'],
  ] as const) {
    repeat(world, kind, 90_000, () => failDatabase(world, condition, random.exponential(8_000)));
  }
  startClockFaults(world);
  repeat(world, 'mint loses its batch route', 60_000, () => {
    const mint = random.pick(mints);
    world.history.add(mint.actor, () => 'loses its batch route');
    mint.switches.batchCheck = 'absent';
  });
  for (const [kind, hosts, meanMs] of [
    ['mint restarts', mints, 2_000],
    ['mint is gone for a while', mints, 60_000],
    ['relay restarts', relays, 2_000],
    ['relay is gone for a while', relays, 60_000],
    ['shop is gone for a while', shops, 30_000],
  ] as const) {
    repeat(world, kind, 60_000, () => {
      const living = hosts.filter((host) => host.actor.isAlive);
      if (living.length > 0) {
        const host = random.pick<SimulatedMint | SimulatedRelay | Shop>(living);
        host.stop();
        // Some outages last until the faults end.
        const outageMs = random.exponential(random.chance(0.2) ? 60 * meanMs : meanMs);
        world.scheduler.schedule(outageMs, () => host.start(), WORLD);
      }
    });
  }
}

/** Ends what lasts, so that everything can recover. */
export function endFaults(world: World): void {
  world.history.add('world', () => 'faults end');
  world.faults.isOver = true;
  world.database.setCondition('working');
  for (const { clock } of [world.database, ...world.instances]) {
    clock.startDrift(0, world.scheduler.nowMs);
    clock.correct(world.scheduler.nowMs);
  }
  for (const mint of world.mints) {
    mint.endFaults();
    mint.start();
  }
  for (const host of [...world.relays, ...world.shops]) {
    host.start();
  }
  for (const instance of world.instances) {
    world.startInstance(instance);
  }
}

function repeat(world: World, kind: FaultKind, meanMs: number, happen: () => void): void {
  const { scheduler, random, faults } = world;
  const next = () =>
    scheduler.schedule(
      random.exponential(meanMs),
      () => {
        if (!faults.isOver) {
          if (faults.choose(kind, 0.5)) {
            happen();
          }
          next();
        }
      },
      WORLD,
    );
  if (faults.has(kind)) {
    next();
  }
}

/** Hits a process at a random time, or just after it has taken a step. */
function strike(
  world: World,
  hit: (world: World, process: Actor) => void,
  steps: readonly ProcessStep[] = PROCESS_STEPS,
): void {
  const { random, faults, scheduler } = world;
  if (random.chance(0.3)) {
    hit(world, random.pick(world.instances).actor);
    return;
  }
  const step = random.pick(steps);
  faults.aim(step, random.integer(1, 11), (process) => {
    world.history.add(process, () => `${step}, which a fault waited for`);
    // When the code that is running awaits something.
    scheduler.schedule(0, () => hit(world, process), WORLD);
  });
}

function killProcess(world: World, process: Actor): void {
  const instance = world.instances.find(({ actor }) => actor === process);
  if (instance?.actor.isAlive) {
    instance.kill();
    restartLater(world, instance);
  }
}

function suspendProcess({ scheduler, random, scenario, history }: World, process: Actor): void {
  const resumesAtMs = scheduler.nowMs + random.exponential(30_000);
  // It may be suspended already.
  process.pausedUntilMs = Math.max(process.pausedUntilMs, Math.min(resumesAtMs, scenario.activeMs));
  history.add(process, () => `is suspended until ${(process.pausedUntilMs / 1_000).toFixed(3)}`);
}

/** The power of all machines fails. */
function cutPower(world: World): void {
  world.history.add('world', () => 'the power fails');
  failDatabase(world, 'gone', world.random.between(100, 3_000));
  for (const { actor } of world.instances) {
    killProcess(world, actor);
  }
}

function failDatabase(world: World, condition: DatabaseCondition, durationMs: number): void {
  const { database, scheduler, random, faults, history } = world;
  if (database.condition !== 'working') {
    return;
  }
  history.add('database', () => `is ${condition}`);
  database.setCondition(condition);
  const recover = () => {
    if (database.condition === condition) {
      history.add('database', () => 'works again');
      // The new primary is another machine.
      if (condition === 'gone' && faults.choose('clock steps', 0.3)) {
        database.clock.step(random.between(-60_000, 60_000));
      }
      database.setCondition('working');
    }
  };
  scheduler.schedule(durationMs, recover, WORLD);
}

function startClockFaults(world: World): void {
  const { random, faults, scheduler, database, history } = world;
  const machines = [database, ...world.instances];
  for (const { clock } of machines) {
    if (faults.choose('clock drift', 0.5)) {
      clock.startDrift(random.between(-0.002, 0.002), 0);
    }
  }
  repeat(world, 'clock steps', 60_000, () => {
    const { clock, name } = random.pick(machines);
    const stepMs = random.exponential(20_000) * random.pick([-1, 1]);
    history.add(name, () => `clock steps by ${stepMs.toFixed()} ms`);
    clock.step(stepMs);
    const correct = () => {
      history.add(name, () => 'NTP sets the clock');
      clock.correct(scheduler.nowMs);
    };
    scheduler.schedule(random.exponential(60_000), correct, WORLD);
  });
}

/** Some processes are gone for so long that others take over. */
function restartLater(world: World, instance: ServiceInstance): void {
  const { scheduler, random, faults } = world;
  const meanMs = !faults.isOver && random.chance(0.3) ? 60_000 : 3_000;
  scheduler.schedule(random.exponential(meanMs), () => world.startInstance(instance), WORLD);
}
