import type { BenchDatabase } from './database.ts';
import { NodeProcess } from './node-process.ts';

/** Where the service says it is; nothing asks for it there. */
export const PUBLIC_ORIGIN = 'https://nutpost.example';

export const JWT_SECRET = 'a secret for figures, of 32 letters and more';

/** Names the folder that CPU profiles of the service go to; without it there are none. */
export const PROFILES_VARIABLE = 'NUTPOST_BENCH_PROFILES';

/** A server of a benchmark, listening. */
export interface BenchServer extends AsyncDisposable {
  process: NodeProcess;
  /** Without a slash at the end. */
  url: string;
}

/**
 * All load comes from one address: requests are counted, and none is refused. Open invoices are not counted (0): one
 * address has far more of them here than any limit allows, and each would be read for every new one.
 */
const NEVER_REACHED_LIMITS = Object.fromEntries(
  [
    'REQUESTS',
    'INVOICES',
    'CHANGES',
    'PURCHASES',
    'SOCKETS',
    'SOCKETS_PER_ADDRESS',
    'SOCKETS_PER_KEY',
    'SOCKET_MESSAGES',
  ].map((name) => [`LIMIT_${name}`, '1000000']),
);

/**
 * The service as `npm start` runs it.
 *
 * @param mint the mint of users who chose none
 * @param env settings beside those that every figure has
 */
export function startService(
  mint: Pick<BenchServer, 'url'>,
  database: BenchDatabase,
  env: Record<string, string> = {},
): Promise<BenchServer> {
  return startServer('the service', import.meta.resolve('../../bin/nutpost.js'), {
    PORT: '0',
    PUBLIC_ORIGINS: PUBLIC_ORIGIN,
    DEFAULT_MINT_URL: mint.url,
    ALLOW_PRIVATE_NETWORKS: 'true',
    ...NEVER_REACHED_LIMITS,
    LIMIT_OPEN_INVOICES_PER_RECIPIENT: '0',
    LIMIT_OPEN_INVOICES_PER_ADDRESS: '0',
    LIMIT_OPEN_INVOICES_PER_PAIR: '0',
    JWT_SECRET,
    ...database.env,
    ...profiling(),
    ...env,
  });
}

/** A mint that answers at once, in a process of its own. */
export function startMint(): Promise<BenchServer> {
  return startServer('the test mint', import.meta.resolve('../../src/demo/test-mint-main.ts'), {});
}

/**
 * @param program the file of a floor, which prints `{"url"}` once it listens
 * @param input becomes its standard input, as JSON
 */
export function startFloor(
  program: string,
  env: Record<string, string>,
  input?: unknown,
): Promise<BenchServer> {
  return startServer('the floor', program, env, input);
}

function profiling(): Record<string, string> {
  const folder = process.env[PROFILES_VARIABLE];
  return folder === undefined ? {} : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir="${folder}"` };
}

async function startServer(
  name: string,
  program: string,
  env: Record<string, string>,
  input?: unknown,
): Promise<BenchServer> {
  const started = new NodeProcess(name, program, { env, input });
  try {
    let { url } = await started.next<{ url?: string }>();
    while (url === undefined) {
      // The service writes a log; one of its first lines names the url.
      ({ url } = await started.next<{ url?: string }>());
    }
    started.ignore();
    return {
      url,
      process: started,
      [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
    };
  } catch (error) {
    await started[Symbol.asyncDispose]();
    throw error;
  }
}
