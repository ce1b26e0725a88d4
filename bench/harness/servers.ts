import type { ServiceDatabase } from './database.ts';
import { type BenchProcess, startProcess } from './processes.ts';

/** The public origin of the service. Nothing connects to it. */
export const PUBLIC_ORIGIN = 'https://nutpost.example';

export const JWT_SECRET = 'a secret for benchmarks, with 32 or more letters';

/** An HTTP server that is measured. Its URL has no trailing slash. */
export type Server = BenchProcess<{ url: string }>;

/** A test mint. It pays each invoice that is posted to `payUrl`. */
export type TestMint = BenchProcess<{ url: string; payUrl: string }>;

/** All load comes from one address. The service counts requests as usual, but the load reaches no limit. */
const UNREACHED_LIMITS = {
  LIMIT_REQUESTS: '1000000',
  LIMIT_INVOICES: '1000000',
  LIMIT_CHANGES: '0',
  LIMIT_SOCKETS: '1000000',
  LIMIT_SOCKETS_PER_ADDRESS: '1000000',
  LIMIT_OPEN_INVOICES_PER_RECIPIENT: '0',
  LIMIT_OPEN_INVOICES_PER_ADDRESS: '0',
  LIMIT_OPEN_INVOICES_PER_PAIR: '0',
};

/**
 * Starts the service like `npm start`.
 *
 * @param mintUrl the default mint
 */
export function startNutpost(
  mintUrl: string,
  database: ServiceDatabase,
  env: Record<string, string> = {},
): Promise<Server> {
  return startProcess('the service', import.meta.resolve('../../bin/nutpost.js'), 'url', {
    // As in `npm start`.
    nodeOptions: ['--max-semi-space-size=16'],
    env: {
      PORT: '0',
      PUBLIC_ORIGINS: PUBLIC_ORIGIN,
      ...database.env,
      DEFAULT_MINT_URL: mintUrl,
      // Mints run on this machine.
      ALLOW_PRIVATE_NETWORKS: 'true',
      JWT_SECRET,
      ...UNREACHED_LIMITS,
      ...env,
    },
  });
}

export function startTestMint(): Promise<TestMint> {
  const program = import.meta.resolve('../../demo/test-mint-main.ts');
  return startProcess('the test mint', program, 'payUrl');
}

/**
 * Starts the floor of a figure: a server with the least code that could do the same work as the service.
 *
 * @param program a `file:` URL
 * @param input written to the standard input of the program as JSON
 */
export function startFloor(
  program: string,
  env: Record<string, string> = {},
  input?: unknown,
): Promise<Server> {
  return startProcess('the floor', program, 'url', { env, input });
}
