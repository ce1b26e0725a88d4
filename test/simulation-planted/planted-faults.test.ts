import { afterAll, expect, test, vi } from 'vitest';
import { readPlantedFaults } from '../simulation/planted-faults.ts';
import { SEED_PROCESS_RULE, SeedProcess } from '../simulation/seed-process.ts';

const MAX_SEEDS = 300;

// A seed takes a second.
vi.setConfig({ testTimeout: 900_000 });

const found: { name: string; rule: string; seed: number; tried: number }[] = [];

test.concurrent.for(readPlantedFaults())('finds: $name', async ({ name, seed: likelySeed }) => {
  const seedProcess = new SeedProcess(['--planted', name]);
  const seeds = new Set([
    likelySeed,
    ...Array.from({ length: MAX_SEEDS }, (_, index) => index + 1),
  ]);
  let tried = 0;
  for (const seed of seeds) {
    tried += 1;
    const rule = await findBrokenRule(seedProcess, seed);
    if (rule !== null) {
      found.push({ name, rule, seed, tried });
      break;
    }
  }
  seedProcess.stop();
  expect(found).toContainEqual(expect.objectContaining({ name }));
});

test('finds nothing in the same seeds without a planted fault', async () => {
  const seedProcess = new SeedProcess([]);
  for (const seed of new Set(found.map((each) => each.seed))) {
    expect(await findBrokenRule(seedProcess, seed)).toBeNull();
  }
  seedProcess.stop();
});

afterAll(() => {
  const lines = found.map(
    ({ name, rule, seed, tried }) => `${name} -> ${rule}, seed ${seed} (${tried} tried)`,
  );
  console.log(lines.sort().join('\n'));
});

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
