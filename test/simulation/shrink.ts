import type { SeedResult, SeedRun } from './run-seeds.ts';
import type { SeedProcess } from './seed-process.ts';

/**
 * Leaves out what follows the faults, then fault kinds, then actors, as long as the same rule breaks. What is left out
 * changes what happens to the rest, so the result is small, but maybe not the smallest.
 */
export async function shrink(
  process: SeedProcess,
  run: SeedRun,
  failed: SeedResult,
  deadlineMs: number,
): Promise<SeedRun> {
  const rule = failed.violations[0]?.rule;
  const stillBreaks = async (candidate: SeedRun) =>
    Date.now() < deadlineMs &&
    (await process.run(candidate)).violations.some((violation) => violation.rule === rule);
  let smallest: SeedRun = { ...run, history: 'none', without: [], only: failed.kinds };
  for (const [name, least] of Object.entries(NO_LATER_PHASES)) {
    const scenario = { ...smallest.scenario, [name]: least };
    const hasPhase = failed.scenario[name as keyof typeof NO_LATER_PHASES] !== least;
    if (hasPhase && (await stillBreaks({ ...smallest, scenario }))) {
      smallest = { ...smallest, scenario };
    }
  }
  for (let size = failed.kinds.length; size >= 1; size = Math.floor(size / 2)) {
    for (let start = 0; start < (smallest.only?.length ?? 0); ) {
      const only = (smallest.only ?? []).toSpliced(start, size);
      if (await stillBreaks({ ...smallest, only })) {
        smallest = { ...smallest, only };
      } else {
        start += size;
      }
    }
  }
  for (const [name, fewest] of Object.entries(FEWEST_ACTORS)) {
    let works = failed.scenario[name as keyof typeof FEWEST_ACTORS];
    // Halves as long as that works, and then tries smaller steps.
    for (let step = Math.ceil(works / 2); step >= 1; ) {
      const fewer = works - step;
      const scenario = { ...smallest.scenario, [name]: fewer };
      if (fewer >= fewest && (await stillBreaks({ ...smallest, scenario }))) {
        smallest = { ...smallest, scenario };
        works = fewer;
        step = Math.min(step, Math.ceil(works / 2));
      } else {
        step = Math.floor(step / 2);
      }
    }
  }
  return smallest;
}

/** First, because these phases take most of the time. */
const NO_LATER_PHASES = { outageHours: 0, hasCalmPhase: false, checksLeaks: false };

const FEWEST_ACTORS = {
  payments: 1,
  operators: 0,
  sales: 0,
  relays: 0,
  shops: 0,
  mints: 1,
  recipients: 1,
  wallets: 0,
  instances: 1,
};
