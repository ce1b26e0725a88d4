import { installNutshell } from './nutshell.ts';
import { runSuite } from './run-suite.ts';

/** `npm run test:mints`: payments through Nutshell, a mint that others wrote (test/mints). */

/**
 * The files of tests run side by side, each with a mint of its own, on any number of cores: the one
 * with the mint's limits waits for minutes to pass, most of the time.
 */
const FILES_AT_ONCE = '2';

try {
  await installNutshell();
  process.exitCode = await runSuite(['mints'], { VITEST_MAX_WORKERS: FILES_AT_ONCE });
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
