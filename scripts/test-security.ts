import { runSuite } from './run-suite.ts';

/**
 * `npm run test:security`: what strangers try (docs/security.md), each against a service of its own.
 *
 * `STORM_SEED` repeats a storm of malformed requests whose seed was printed; `STORM_REQUESTS` makes it
 * shorter or longer than 100,000.
 */
process.exitCode = await runSuite(['security']);
