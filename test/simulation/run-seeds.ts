import './virtual-platform.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { plantFault } from './planted-faults.ts';
import type { Violation } from './referee.ts';
import type { Scenario } from './scenario.ts';

// Runs the seeds that `main.ts` sends, one after the other. A process of its own, because here no clock is real.

/** What to run. */
export interface SeedRun {
  seed: string;
  /** Kinds of faults that are left out. */
  without: readonly string[];
  /** The only kinds that may happen; null: all. */
  only: readonly string[] | null;
  scenario: Partial<Scenario>;
  /** Stops at this virtual time. */
  untilMs: number | null;
  /** Whether the first violation ends the run. */
  stopsEarly: boolean;
  /** What to return; `end`: before the first violation. */
  history: 'none' | 'end' | 'all' | { concerning: string };
  /** Fails if anything was paid, to test what happens then. */
  shouldFail: boolean;
}

export interface SeedResult {
  violations: Violation[];
  payments: number;
  simulatedMs: number;
  scenario: Scenario;
  kinds: string[];
  /** How often each fault happened. */
  faults: Record<string, number>;
  lines: string[];
  /** Of all lines of the history as printed, if it was recorded. Long lines are cut. */
  hash: string;
}

enableCompileCache();
const { planted } = parseArgs({ options: { planted: { type: 'string' } }, strict: false }).values;
if (typeof planted === 'string') {
  plantFault(planted);
}

const { World } = await import('./world.ts');
const { StoppedError } = await import('./scheduler.ts');
const { hashLines, renameWords } = await import('./history.ts');
const { createTemplate } = await import('./template.ts');
const { loadEventVerifier } = await import('../../src/nostr/events.ts');
const { nameIds, renderEnd, renderTimeline } = await import('./timeline.ts');

await loadEventVerifier();
const folder = mkdtempSync(path.join(tmpdir(), 'nutpost-simulation-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
process.on('disconnect', () => process.exit());
process.on('SIGINT', () => process.exit());
const template = await createTemplate(folder);

process.on('message', (run: SeedRun) => {
  void runSeed(run).then((result) => process.send?.(result));
});
process.send?.('ready');

async function runSeed(run: SeedRun): Promise<SeedResult> {
  const world = new World({
    seed: run.seed,
    template,
    folder,
    isRecording: run.history !== 'none',
    without: new Set(run.without),
    only: run.only && new Set(run.only),
    scenario: run.scenario,
    untilMs: run.untilMs ?? Number.POSITIVE_INFINITY,
  });
  world.referee.stopsEarly = run.stopsEarly;
  try {
    await world.run();
  } catch (error) {
    if (!(error instanceof StoppedError)) {
      throw error;
    }
  }
  const { referee, truth, scheduler, scenario, faults } = world;
  const lastPaid = run.shouldFail ? [...truth.paymentsByQuoteId.keys()].at(-1) : undefined;
  if (lastPaid !== undefined) {
    referee.report('nothing is paid', lastPaid);
  }
  const [violation] = referee.violations;
  let lines: string[] = [];
  let hash = '';
  if (run.history === 'end') {
    lines = violation === undefined ? [] : renderEnd(world, violation);
  } else if (run.history !== 'none') {
    lines = renderTimeline(world, null);
    hash = hashLines(lines);
    if (run.history !== 'all') {
      lines = renderTimeline(world, run.history.concerning);
    }
  }
  world.close();
  const names = violation === undefined ? new Map<string, string>() : nameIds(world);
  return {
    violations: referee.violations.map((broken) => ({
      ...broken,
      text: renameWords(broken.text, names),
    })),
    payments: truth.paymentsByQuoteId.size,
    simulatedMs: scheduler.nowMs,
    scenario,
    kinds: faults.kinds,
    faults: countFaults(world),
    lines,
    hash,
  };
}

function countFaults({ faults, mints }: InstanceType<typeof World>): Record<string, number> {
  const counts = Object.fromEntries(faults.counts);
  for (const { state } of mints) {
    for (const [fault, times] of Object.entries(state.chaos.counts)) {
      if (times > 0) {
        const kind = `mint's ${fault}`;
        counts[kind] = (counts[kind] ?? 0) + times;
      }
    }
  }
  return counts;
}
