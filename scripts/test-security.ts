import { installReverseProxies } from './reverse-proxy.ts';
import { runSuite } from './run-suite.ts';

/** `npm run test:security`: what strangers try (docs/security.md), each against a service of its own. */

try {
  await installReverseProxies();
  process.exitCode = await runSuite(['security']);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
