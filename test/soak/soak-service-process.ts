import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import path from 'node:path';

const PROGRAM = new URL('./service-with-adjustable-clock.ts', import.meta.url);

export const JWT_SECRET = 'a secret for the soak test, with 32 letters';

/**
 * The service in a child process, with its default limits. It trusts the test as a reverse proxy, so that the test
 * can send requests from different client addresses.
 */
export class SoakServiceProcess {
  readonly url: string;
  readonly #child: ChildProcess;
  #clockOffsetMs = 0;

  static async start(folder: string, mintUrl: string): Promise<SoakServiceProcess> {
    const log = openSync(path.join(folder, 'service.log'), 'w');
    const child = fork(PROGRAM, {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', log, log, 'ipc'],
      env: {
        PATH: process.env['PATH'],
        PORT: '0',
        DATA_DIR: path.join(folder, 'data'),
        DEFAULT_MINT_URL: mintUrl,
        ALLOW_PRIVATE_NETWORKS: 'true',
        TRUST_PROXY: '127.0.0.1',
        JWT_SECRET,
        LOG_LEVEL: 'warn',
        STOP_DELAY_SECONDS: '0',
      },
    });
    process.once('exit', () => child.kill('SIGKILL'));
    child.once('exit', (code) => {
      if (code !== 0) {
        throw new Error(`the service exited with code ${code}: see ${folder}/service.log`);
      }
    });
    const [url] = (await once(child, 'message')) as [string];
    return new SoakServiceProcess(child, url);
  }

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** The service's clock, in milliseconds since 1970. The mint and the wallets use it, too. */
  readonly now = (): number => Date.now() + this.#clockOffsetMs;

  async advanceClock(ms: number): Promise<void> {
    this.#clockOffsetMs += ms;
    this.#child.send(this.#clockOffsetMs);
    await once(this.#child, 'message');
  }

  /** Returns the service's resident memory in MB after a garbage collection. */
  async measureMemoryMb(): Promise<number> {
    this.#child.send('collect garbage');
    const [bytes] = (await once(this.#child, 'message')) as [number];
    return bytes / 1024 ** 2;
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await exited;
  }
}
