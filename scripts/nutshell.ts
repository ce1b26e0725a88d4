import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { getPythonEnvironment, installPythonEnvironment } from './python-environment.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

const NUTSHELL_VERSION = '0.20.2';

/** Nutshell does not start with newer major versions of these packages. */
const VERSION_CONSTRAINTS = ['marshmallow<4', 'limits<5'];

const ENVIRONMENT = `nutshell-${NUTSHELL_VERSION}`;

export interface NutshellMint {
  /** Without a trailing slash. */
  url: string;
  /** Stops the mint and deletes its data. */
  stop(): Promise<void>;
}

export async function installNutshell(): Promise<void> {
  const packages = [`cashu==${NUTSHELL_VERSION}`, ...VERSION_CONSTRAINTS];
  await installPythonEnvironment(ENVIRONMENT, packages);
}

/**
 * Starts a Nutshell mint on a free port of 127.0.0.1 and waits until it responds. The mint has an empty database and
 * a simulated Lightning node. Call {@link installNutshell} first.
 *
 * @param options.env Nutshell settings. The simulated Lightning node pays every invoice after
 *   `FAKEWALLET_DELAY_INCOMING_PAYMENT` seconds. Nutshell does not limit the requests of 127.0.0.1, so tests of its
 *   rate limits set `MINT_LISTEN_HOST: '::1'`
 * @throws Error with the mint's output if it does not start
 */
export async function startNutshell(
  options: { env?: Record<string, string> } = {},
): Promise<NutshellMint> {
  const host = options.env?.['MINT_LISTEN_HOST'] ?? '127.0.0.1';
  const port = await findFreePort(host);
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-nutshell-'));
  const mint = new ServerProcess(
    'Nutshell',
    path.join(getPythonEnvironment(ENVIRONMENT), 'bin/mint'),
    [],
    {
      cwd: folder,
      // The mint must not inherit this process's environment, which could contain settings of a mint.
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        CASHU_DIR: folder,
        MINT_DATABASE: path.join(folder, 'mint'),
        MINT_PRIVATE_KEY: 'a test mint',
        MINT_BACKEND_BOLT11_SAT: 'FakeWallet',
        MINT_LISTEN_HOST: host,
        MINT_LISTEN_PORT: String(port),
        ...options.env,
      },
    },
  );
  const stop = async () => {
    await mint.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  };
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  try {
    await mint.waitUntilReady(async () => {
      const response = await fetch(`${url}/v1/info`).catch(() => null);
      return response?.ok === true ? response : null;
    });
    return { url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
