import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { LongestFirstSequencer } from './scripts/longest-first-sequencer.ts';
import { SummaryReporter } from './scripts/summary-reporter.ts';

/** Each folder of test/ is a project; package.json says which command runs which. */
const PROJECTS = [
  'unit',
  'adapters',
  'integration',
  'acceptance',
  'simulation',
  'simulation-planted',
  'faults',
  'postgres',
  'mints',
  'security',
  'load',
  'operations',
  'failover',
  'pooler',
  'image',
  'web',
];

/** Those whose tests start no service and open no database. */
const LIGHT: ReadonlySet<string> = new Set([
  'unit',
  'adapters',
  'simulation',
  'simulation-planted',
]);

/** The files of the others have a process each. Loading the modules again for each file takes longer than most tests. */
const SHARED_PROCESSES: ReadonlySet<string> = new Set([
  ...LIGHT,
  'integration',
  'acceptance',
  'postgres',
  'web',
]);

/**
 * What these acceptance tests check does not depend on the database, or they start processes on SQLite. Their queries run
 * on PostgreSQL in other tests.
 */
const ONLY_ON_SQLITE = [
  ...['address-tags', 'authentication', 'demo', 'doctor', 'doctor-start', 'error-responses'],
  ...['fiat-rates', 'http-connections', 'lnurl', 'lnurl-comments', 'log-lines', 'names'],
  ...['openapi', 'profiles', 'public-endpoints', 'quote-socket', 'rate-limits'],
  ...['reserved-usernames', 'shop', 'socket-limits', 'user-settings', 'username-keyset-expiry'],
  ...['username-mint-limits', 'username-purchase', 'wallet-compatibility', 'web-pages', 'zaps'],
];

/** Those whose tests measure delays, memory and processor time, so that nothing else may run at the same time. */
const MEASURING = 'load';

/** With two, tests that measure times begin to see each other. */
const WORKERS_PER_CORE = 1.5;

export default defineConfig({
  test: {
    pool: 'forks',
    // Most files wait for a database, a mint or a relay half of their time.
    maxWorkers: Math.ceil(availableParallelism() * WORKERS_PER_CORE),
    // Tests of a file that run at the same time start a busy process each.
    maxConcurrency: availableParallelism(),
    // What takes a second here takes half a minute where the disk and the processors are others' too.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    teardownTimeout: 30_000,
    expect: { poll: { timeout: 45_000, interval: 20 } },
    sequence: { sequencer: LongestFirstSequencer },
    reporters: ['default', new SummaryReporter()],
    projects: PROJECTS.map((name) => ({
      extends: true,
      test: {
        name,
        // What users notice is the same on both databases.
        include: (name === 'postgres' ? [name, 'acceptance'] : [name]).map(
          (folder) => `test/${folder}/**/*.test.ts`,
        ),
        ...(name === 'postgres' && {
          exclude: ONLY_ON_SQLITE.map((file) => `test/acceptance/${file}.test.ts`),
        }),
        ...(name === MEASURING && { maxWorkers: 1 }),
        sequence: { groupOrder: name === MEASURING ? 0 : 1 },
        isolate: !SHARED_PROCESSES.has(name),
        globalSetup: LIGHT.has(name) ? [] : ['test/helpers/database/create-postgres-template.ts'],
      },
    })),
  },
});
