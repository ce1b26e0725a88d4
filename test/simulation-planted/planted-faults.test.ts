import { afterAll, expect, test, vi } from 'vitest';
import { readPlantedFaults } from '../simulation/planted-faults.ts';
import { SEED_PROCESS_RULE, SeedProcess } from '../simulation/seed-process.ts';

const MAX_SEEDS = 300;

// A seed takes a second.
vi.setConfig({ testTimeout: 900_000 });

const found: { name: string; rule: string; seed: number; tried: number }[] = [];

/** Runs seeds without a planted fault, one after the other. */
const unchanged = new SeedProcess([]);
const unchangedRules = new Map<number, Promise<string | null>>();

test.concurrent.for(readPlantedFaults())('fault %$: $name', async ({ name, seed: likelySeed }) => {
  const seedProcess = new SeedProcess(['--planted', name]);
  const seeds = new Set([
    likelySeed,
    ...Array.from({ length: MAX_SEEDS }, (_, index) => index + 1),
  ]);
  let tried = 0;
  for (const seed of seeds) {
    tried += 1;
    const rule = await findBrokenRule(seedProcess, seed);
    if (rule !== null && (await findRuleWithoutFault(seed)) === null) {
      found.push({ name, rule, seed, tried });
      break;
    }
  }
  seedProcess.stop();
  expect(found).toContainEqual(expect.objectContaining({ name }));
});

afterAll(() => {
  unchanged.stop();
  const lines = found.map(
    ({ name, rule, seed, tried }) => `${name} -> ${rule}, seed ${seed} (${tried} tried)`,
  );
  console.log(lines.sort().join('\n'));
});

function findRuleWithoutFault(seed: number): Promise<string | null> {
  return unchangedRules.getOrInsertComputed(seed, async () => {
    await Promise.all(unchangedRules.values());
    return await findBrokenRule(unchanged, seed);
  });
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
