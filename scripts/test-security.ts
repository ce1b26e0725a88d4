import { installReverseProxies } from './reverse-proxy.ts';
import { runSuite } from './run-suite.ts';

/** `npm run test:security`: what strangers try (docs/security.md), each against a service of its own. */

/** How others are served during an attack is measured: no second one may run meanwhile. */
const FILES_AT_ONCE = '1';

try {
  await installReverseProxies();
  process.exitCode = await runSuite(['security'], { VITEST_MAX_WORKERS: FILES_AT_ONCE });
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
