import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { LoadOrder, LoadReport } from './load-main.ts';

const PROGRAM = path.resolve(import.meta.dirname, 'load-main.ts');

/** Wallets and payers of two processes, in a process of their own: what they do costs the test no time. */
export class Load {
  readonly #child = fork(PROGRAM, { stdio: 'inherit' });

  /** Resolves once all sockets are open and every payer and wallet has had answers. */
  static async start(order: LoadOrder): Promise<Load> {
    const load = new Load();
    onTestFinished(() => load.#kill());
    load.#child.send(order);
    await load.#next();
    return load;
  }

  /** Ends it once every socket is open at the second process. */
  async end(): Promise<LoadReport> {
    this.#child.send('end');
    return (await this.#next()) as LoadReport;
  }

  async #next(): Promise<unknown> {
    const [message] = await Promise.race([once(this.#child, 'message'), this.#ended()]);
    return message;
  }

  async #ended(): Promise<never> {
    const [code] = await once(this.#child, 'exit');
    throw new Error(`the load ended by itself, with ${code}`);
  }

  #kill(): void {
    this.#child.removeAllListeners('exit');
    this.#child.kill('SIGKILL');
  }
}
