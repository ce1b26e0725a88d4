import { installNutshell } from './nutshell.ts';
import { runSuite } from './run-suite.ts';

/** `npm run test:mints`: payments through Nutshell, a mint that others wrote (test/mints). */

try {
  await installNutshell();
  process.exitCode = await runSuite(['mints']);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
