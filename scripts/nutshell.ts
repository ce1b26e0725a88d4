import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { exists, installFromDistribution, run } from './machine.ts';
import { freePort, ServerProcess } from './server-process.ts';

const NUTSHELL_VERSION = '0.20.2';

/** Nutshell does not start with the next major versions of these. */
const PINNED_BELOW = ['marshmallow<4', 'limits<5'];

/** The name contains the version, so that another version is installed anew. */
const VENV = path.resolve('node_modules/.cache', `nutshell-${NUTSHELL_VERSION}`);

/** Written last, so that an interrupted installation is repeated. */
const INSTALLED_MARK = path.join(VENV, 'installed');

/** A running Nutshell mint with an empty database and a fake Lightning backend. */
export interface Nutshell {
  /** Without a slash at the end. */
  url: string;
  /** Stops the mint and deletes its folder. */
  stop(): Promise<void>;
}

/**
 * Installs Nutshell once, into its own Python environment under node_modules/.cache. On
 * Debian and as root, Python's missing venv module is installed from the distribution.
 *
 * @throws if Python 3.10 or later is missing or the installation fails; the message says what to do
 */
export async function installNutshell(): Promise<void> {
  if (await exists(INSTALLED_MARK)) {
    return;
  }
  await requirePython();
  console.log(`Installing Nutshell ${NUTSHELL_VERSION}, once; it takes about a minute`);
  await rm(VENV, { recursive: true, force: true });
  await run('python3', ['-m', 'venv', VENV]);
  await run(path.join(VENV, 'bin/pip'), [
    'install',
    '--quiet',
    '--disable-pip-version-check',
    `cashu==${NUTSHELL_VERSION}`,
    ...PINNED_BELOW,
  ]);
  await writeFile(INSTALLED_MARK, '');
}

/**
 * Starts a Nutshell mint on a free port of 127.0.0.1 and waits for its first answer. It must have
 * been installed ({@link installNutshell}), as `npm run test:mints` does.
 *
 * @param options.env Nutshell's own settings, for example `FAKEWALLET_BRR`: `TRUE`, its default,
 *   pays every invoice, `FALSE` none; `MINT_LISTEN_HOST: '::1'`: its rate limits apply, from which
 *   127.0.0.1 is exempt
 * @throws if the mint does not start; the message has its output
 */
export async function startNutshell(
  options: { env?: Record<string, string> } = {},
): Promise<Nutshell> {
  const host = options.env?.['MINT_LISTEN_HOST'] ?? '127.0.0.1';
  const port = await freePort(host);
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-nutshell-'));
  const mint = new ServerProcess('Nutshell', path.join(VENV, 'bin/mint'), [], {
    cwd: folder,
    // Without our environment: a mint setting in it would change every test.
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
    await mint.firstAnswer(async () => {
      const answer = await fetch(`${url}/v1/info`).catch(() => null);
      return answer?.ok === true ? answer : null;
    });
    return { url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function requirePython(): Promise<void> {
  if (!(await python('import sys; assert sys.version_info >= (3, 10)'))) {
    throw new Error('The tests against Nutshell need Python 3.10 or later, as python3 on PATH.');
  }
  // Debian's python3 has `venv`, but not the `ensurepip` that it needs.
  const hasVenv = () => python('import venv, ensurepip');
  if (!(await hasVenv())) {
    await installFromDistribution('python3-venv');
    if (!(await hasVenv())) {
      throw new Error("Python's venv module is missing (on Debian: apt-get install python3-venv).");
    }
  }
}

/** Whether Python exists and runs the program without an error. */
function python(program: string): Promise<boolean> {
  return run('python3', ['-c', program]).then(
    () => true,
    () => false,
  );
}
