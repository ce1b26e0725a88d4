import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/suite-order.ts';
import { SuiteTally } from './scripts/suite-tally.ts';

/** Each folder of test/ is a project; package.json says which command runs which. */
const PROJECTS = [
  'unit',
  'adapters',
  'integration',
  'acceptance',
  'outcomes',
  'postgres',
  'mints',
  'security',
  'operations',
];

/** Those whose tests open no database of ours. */
const WITHOUT_DATABASE: ReadonlySet<string> = new Set(['unit', 'adapters']);

/** With two, tests that measure times begin to see each other. */
const WORKERS_PER_CORE = 1.5;

export default defineConfig({
  test: {
    // A process for each file: ports, databases and signal handlers of one cannot reach another.
    pool: 'forks',
    // Most files wait for a database, a mint or a relay half of their time.
    maxWorkers: Math.ceil(availableParallelism() * WORKERS_PER_CORE),
    // What takes a second here takes half a minute where the disk and the processors are others' too.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    teardownTimeout: 30_000,
    expect: { poll: { timeout: 45_000, interval: 20 } },
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new SuiteTally()],
    projects: PROJECTS.map((name) => ({
      extends: true,
      test: {
        name,
        // What users notice is the same on both databases.
        include: (name === 'postgres' ? [name, 'acceptance'] : [name]).map(
          (folder) => `test/${folder}/**/*.test.ts`,
        ),
        globalSetup: WITHOUT_DATABASE.has(name) ? [] : ['test/helpers/database-template.ts'],
      },
    })),
  },
});
