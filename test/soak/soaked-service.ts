import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import path from 'node:path';

const PROGRAM = import.meta.resolve('./service.ts');

/** The secret of the wallets' tokens. */
export const JWT_SECRET = 'a secret for the soak test, of 32 letters';

/** A service with limits and settings as operators have them. Payers' addresses come from its reverse proxy, the test. */
export class SoakedService {
  readonly url: string;
  readonly #child: ChildProcess;
  #aheadMs = 0;

  /** @param folder holds the database (`data`) and the log of warnings (`service.log`) */
  static async start(folder: string, mintUrl: string): Promise<SoakedService> {
    const log = openSync(path.join(folder, 'service.log'), 'w');
    const child = fork(new URL(PROGRAM), {
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
        throw new Error(`the service ended with exit code ${code}: see ${folder}/service.log`);
      }
    });
    const [url] = (await once(child, 'message')) as [string];
    return new SoakedService(child, url);
  }

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** Its clock, which the mint and the wallets share. Milliseconds since 1970. */
  readonly now = (): number => Date.now() + this.#aheadMs;

  /** Sets its clock ahead. */
  async letPass(ms: number): Promise<void> {
    this.#aheadMs += ms;
    this.#child.send(this.#aheadMs);
    await once(this.#child, 'message');
  }

  /** Collects its garbage. @returns its resident memory, in MB */
  async memoryMb(): Promise<number> {
    this.#child.send('collect garbage');
    const [bytes] = (await once(this.#child, 'message')) as [number];
    return bytes / 1024 ** 2;
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
  }
}
