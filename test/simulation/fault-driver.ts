import { WORLD } from './scheduler.ts';
import type { ServiceInstance } from './service-instance.ts';
import type { World } from './world.ts';

/** Faults that last: processes, the database and mints that are gone for a while. Each repeats at random times. */
export function startFaults(world: World): void {
  const { random, database, mints } = world;
  repeat(world, 'killed processes', 30_000, () => {
    const instance = random.pick(world.instances);
    if (instance.actor.isAlive) {
      instance.kill();
      restartLater(world, instance);
    }
  });
  repeat(world, 'restarts', 60_000, () => {
    const instance = random.pick(world.instances);
    if (instance.isServing) {
      void instance.stop().then(() => restartLater(world, instance));
    }
  });
  repeat(world, 'power cuts', 120_000, () => {
    world.history.add('world', () => 'the power fails');
    database.setCondition('gone');
    for (const instance of world.instances) {
      instance.kill();
      restartLater(world, instance);
    }
    world.scheduler.schedule(
      random.between(100, 3_000),
      () => database.setCondition('working'),
      WORLD,
    );
  });
  for (const [kind, condition] of [
    ['database gone', 'gone'],
    ['database read-only', 'read-only'],
    ['disk full', 'full'],
  ] as const) {
    repeat(world, kind, 90_000, () => {
      if (database.condition === 'working') {
        world.history.add('database', () => `is ${condition}`);
        database.setCondition(condition);
        const endsInMs = random.exponential(8_000);
        world.scheduler.schedule(endsInMs, () => database.setCondition('working'), WORLD);
      }
    });
  }
  for (const [kind, meanMs] of [
    ['mint restarts', 2_000],
    ['mint is gone for a while', 60_000],
  ] as const) {
    repeat(world, kind, 60_000, () => {
      const mint = random.pick(mints);
      if (mint.actor.isAlive) {
        mint.stop();
        world.scheduler.schedule(random.exponential(meanMs), () => mint.start(), WORLD);
      }
    });
  }
}

/** Ends what lasts, so that everything can recover. */
export function endFaults(world: World): void {
  world.history.add('world', () => 'faults end');
  world.faults.isOver = true;
  world.database.setCondition('working');
  for (const mint of world.mints) {
    mint.endFaults();
    if (!mint.actor.isAlive) {
      mint.start();
    }
  }
}

function repeat(world: World, kind: string, meanMs: number, happen: () => void): void {
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

function restartLater(world: World, instance: ServiceInstance): void {
  const restart = () => world.startInstance(instance);
  world.scheduler.schedule(world.random.exponential(3_000), restart, WORLD);
}
