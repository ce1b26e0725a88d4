import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Ends what a script printed, and cannot be printed by mistake. */
const END = '\u001e';

/** A command of a document, run to its end. */
export interface ShellAnswer {
  /** 0, or the code with which the shell ended at the first command that failed. */
  exitCode: number;
  /** As a person sees it, what went to standard error too. */
  printed: string;
}

/** One terminal for a whole document: what a block sets, the next ones see. */
export class Shell {
  readonly #folder: string;
  readonly #bash: ChildProcess;
  readonly #ended: Promise<number>;
  readonly #services: RunningService[] = [];
  readonly #env: NodeJS.ProcessEnv;
  #printed = '';
  #onPrinted = () => {};

  /** @param folder where its commands run and leave what they write */
  constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder;
    this.#env = env;
    this.#bash = spawn('bash', ['--noprofile', '--norc'], { cwd: folder, env });
    this.#ended = once(this.#bash, 'close').then(([code]) => Number(code ?? 1));
    for (const stream of [this.#bash.stdout, this.#bash.stderr]) {
      stream?.on('data', (chunk) => {
        this.#printed += chunk;
        this.#onPrinted();
      });
    }
    this.#bash.stdin?.on('error', () => {});
    this.#bash.stdin?.write('set -euo pipefail; exec 2>&1\n');
  }

  /** Runs a script; resolves when it has ended. */
  async run(script: string): Promise<ShellAnswer> {
    if (this.#bash.exitCode !== null) {
      return { exitCode: 1, printed: 'An earlier block ended the shell.' };
    }
    const file = path.join(this.#folder, '.block.sh');
    await writeFile(file, script);
    this.#printed = '';
    const { promise: done, resolve } = Promise.withResolvers<number>();
    this.#onPrinted = () => {
      if (this.#printed.endsWith(END)) {
        resolve(0);
      }
    };
    // Its commands read nothing: what a person would type is in the script.
    this.#bash.stdin?.write(`source '${file}' </dev/null; printf '${END}'\n`);
    const exitCode = await Promise.race([done, this.#ended]);
    return { exitCode, printed: this.#printed.replace(END, '') };
  }

  /** Starts a service; resolves once it listens. */
  async serve(script: string): Promise<void> {
    const service = new RunningService(script, this.#folder, this.#env);
    this.#services.push(service);
    await service.listening;
  }

  /** Ends the services, as Ctrl-C does, and then the shell. */
  async close(): Promise<void> {
    await Promise.all(this.#services.map((service) => service.stop()));
    this.#bash.stdin?.end();
    this.#bash.kill('SIGKILL');
    await this.#ended;
  }
}

/** What goes on running in a document's terminal, in a process group of its own. */
class RunningService {
  readonly listening: Promise<void>;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(script: string, folder: string, env: NodeJS.ProcessEnv) {
    this.#child = spawn('bash', ['-c', script], { cwd: folder, env, detached: true });
    this.#ended = once(this.#child, 'close');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.listening = promise;
    let printed = '';
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk) => {
        printed += chunk;
        if (printed.includes('nutpost is listening')) {
          resolve();
        }
      });
    }
    void this.#ended.then(() => reject(new Error(`the service ended: ${printed}`)));
  }

  async stop(): Promise<void> {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) {
      process.kill(-pid, 'SIGINT');
    }
    await this.#ended;
  }
}
