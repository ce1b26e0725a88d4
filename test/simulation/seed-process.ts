import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { SeedResult, SeedRun } from './run-seeds.ts';
import type { Scenario } from './scenario.ts';

/** Broken if the process of a seed ends or hangs, so that nothing else is known about it. */
export const SEED_PROCESS_RULE = 'the simulation ends';

/** A process that runs seeds. If it ends or hangs, that is a result too. */
export class SeedProcess {
  #child: ChildProcess | null = null;
  #errors = '';
  readonly #programArguments: readonly string[];

  /** @param programArguments by default, those of this process */
  constructor(programArguments: readonly string[] = process.argv.slice(2)) {
    this.#programArguments = programArguments;
  }

  async run(run: SeedRun): Promise<SeedResult> {
    const child = await this.#start();
    const { promise, resolve } = Promise.withResolvers<SeedResult | string>();
    const hang = setTimeout(() => resolve('no end after ten minutes'), SLOWEST_SEED_MS);
    const handleEnd = () => resolve(`the process ended: ${this.#errors.trim()}`);
    child.once('message', resolve);
    child.once('close', handleEnd);
    if (child.connected) {
      child.send(run);
    } else {
      handleEnd();
    }
    const result = await promise;
    clearTimeout(hang);
    child.off('message', resolve).off('close', handleEnd);
    if (typeof result !== 'string') {
      return result;
    }
    child.kill('SIGKILL');
    this.#child = null;
    const violation = { rule: SEED_PROCESS_RULE, atMs: 0, text: result };
    return { ...EMPTY_RESULT, violations: [violation] };
  }

  stop(): void {
    this.#child?.disconnect();
  }

  async #start(): Promise<ChildProcess> {
    if (this.#child === null) {
      const file = path.join(import.meta.dirname, 'run-seeds.ts');
      this.#child = fork(file, this.#programArguments, {
        stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
        // With more space for new objects, a seed takes a quarter less time.
        execArgv: ['--no-deprecation', '--max-semi-space-size=32'],
      });
      this.#errors = '';
      this.#child.stderr?.on('data', (data) => {
        this.#errors += data;
      });
      await Promise.race([once(this.#child, 'message'), once(this.#child, 'close')]);
    }
    return this.#child;
  }
}

/** A seed takes a second or two, and twelve hours without a mint 40 seconds, or several minutes on a busy machine. */
const SLOWEST_SEED_MS = 600_000;

const EMPTY_RESULT: SeedResult = {
  violations: [],
  payments: 0,
  simulatedMs: 0,
  scenario: {} as Scenario,
  kinds: [],
  faults: {},
  lines: [],
  hash: '',
};
