import { defineConfig } from 'vitest/config';
import { SuiteTally } from './scripts/suite-tally.ts';

/** Each folder of test/ is a project; package.json says which command runs which. */
const PROJECTS = ['unit', 'integration', 'acceptance', 'postgres', 'mints', 'security'];

export default defineConfig({
  test: {
    // A process for each file: ports, databases and signal handlers of one cannot reach another.
    pool: 'forks',
    // Most files wait for a database or a mint half of their time: no core is left to others.
    maxWorkers: '100%',
    testTimeout: 20_000,
    hookTimeout: 30_000,
    teardownTimeout: 10_000,
    reporters: ['default', new SuiteTally()],
    projects: PROJECTS.map((name) => ({
      extends: true,
      test: { name, include: [`test/${name}/**/*.test.ts`] },
    })),
  },
});
