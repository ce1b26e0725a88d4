import { afterAll, expect, test, vi } from 'vitest';
import { readPlantedFaults } from '../simulation/planted-faults.ts';
import { SEED_PROCESS_RULE, SeedProcess } from '../simulation/seed-process.ts';

const PLANTED_FAULTS = readPlantedFaults();

const MAX_SEEDS = 300;

// A seed takes a second.
vi.setConfig({ testTimeout: 900_000 });

const found: { name: string; rule: string; seed: number; tried: number }[] = [];

// It takes longest, so it begins first.
test.concurrent('finds nothing in the listed seeds without a planted fault', async () => {
  const seedProcess = new SeedProcess([]);
  for (const seed of new Set(PLANTED_FAULTS.map((fault) => fault.seed))) {
    expect(await findBrokenRule(seedProcess, seed)).toBeNull();
  }
  seedProcess.stop();
});

test.concurrent.for(PLANTED_FAULTS)('finds: $name', async ({ name, seed: likelySeed }) => {
  const seedProcess = new SeedProcess(['--planted', name]);
  const seeds = new Set([
    likelySeed,
    ...Array.from({ length: MAX_SEEDS }, (_, index) => index + 1),
  ]);
  let tried = 0;
  for (const seed of seeds) {
    tried += 1;
    const rule = await findBrokenRule(seedProcess, seed);
    // The test above has run the likely seeds.
    const isFound = rule !== null && (seed === likelySeed || (await isCleanWithoutFault(seed)));
    if (isFound) {
      found.push({ name, rule, seed, tried });
      break;
    }
  }
  seedProcess.stop();
  expect(found).toContainEqual(expect.objectContaining({ name }));
});

afterAll(() => {
  const lines = found.map(
    ({ name, rule, seed, tried }) => `${name} -> ${rule}, seed ${seed} (${tried} tried)`,
  );
  console.log(lines.sort().join('\n'));
});

async function isCleanWithoutFault(seed: number): Promise<boolean> {
  const seedProcess = new SeedProcess([]);
  const rule = await findBrokenRule(seedProcess, seed);
  seedProcess.stop();
  return rule === null;
}

async function findBrokenRule(seedProcess: SeedProcess, seed: number): Promise<string | null> {
  const { violations } = await seedProcess.run({
    seed: String(seed),
    without: [],
    only: null,
    scenario: {},
    untilMs: null,
    stopsEarly: true,
    history: 'none',
    shouldFail: false,
  });
  const [violation] = violations;
  if (violation?.rule === SEED_PROCESS_RULE) {
    throw new Error(violation.text);
  }
  return violation?.rule ?? null;
}
