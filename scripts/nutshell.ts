import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installDebianPackages, pathExists, runProgram } from './debian-packages.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

const NUTSHELL_VERSION = '0.20.2';

/** Nutshell does not start with newer major versions of these packages. */
const VERSION_CONSTRAINTS = ['marshmallow<4', 'limits<5'];

/** The Python environment. Its path contains the version, so another version is installed into another folder. */
const VENV = path.resolve('node_modules/.cache', `nutshell-${NUTSHELL_VERSION}`);

/** The installation creates this file last. Without the file, the installation is incomplete and starts again. */
const INSTALLED_MARKER = path.join(VENV, 'installed');

export interface NutshellMint {
  /** Without a trailing slash. */
  url: string;
  /** Stops the mint and deletes its data. */
  stop(): Promise<void>;
}

/**
 * Installs Nutshell into a Python environment under node_modules/.cache, unless it is already installed. Also
 * installs Python's venv module if it is missing and this process runs as root on Debian.
 *
 * @throws Error if Python 3.10 or later is missing, or if the installation fails
 */
export async function installNutshell(): Promise<void> {
  if (await pathExists(INSTALLED_MARKER)) {
    return;
  }
  await requirePython();
  console.log(`Installing Nutshell ${NUTSHELL_VERSION} (needed once, takes about a minute)`);
  await rm(VENV, { recursive: true, force: true });
  await runProgram('python3', ['-m', 'venv', VENV]);
  await runProgram(path.join(VENV, 'bin/pip'), [
    'install',
    '--quiet',
    '--disable-pip-version-check',
    `cashu==${NUTSHELL_VERSION}`,
    ...VERSION_CONSTRAINTS,
  ]);
  await writeFile(INSTALLED_MARKER, '');
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
  const mint = new ServerProcess('Nutshell', path.join(VENV, 'bin/mint'), [], {
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
  });
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

async function requirePython(): Promise<void> {
  if (!(await canRunPython('import sys; assert sys.version_info >= (3, 10)'))) {
    throw new Error('The Nutshell tests need Python 3.10 or later as python3 on PATH.');
  }
  // Debian's python3 package contains `venv`, but not the module `ensurepip`, which `venv` needs.
  const hasVenv = () => canRunPython('import venv, ensurepip');
  if (!(await hasVenv())) {
    await installDebianPackages('python3-venv');
    if (!(await hasVenv())) {
      throw new Error("Python's venv module is missing (on Debian: apt-get install python3-venv).");
    }
  }
}

function canRunPython(program: string): Promise<boolean> {
  return runProgram('python3', ['-c', program]).then(
    () => true,
    () => false,
  );
}
