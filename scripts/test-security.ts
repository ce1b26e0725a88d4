import { runSuite } from './run-suite.ts';

/** `npm run test:security`: what strangers try (docs/security.md), each against a service of its own. */
process.exitCode = await runSuite(['security']);
