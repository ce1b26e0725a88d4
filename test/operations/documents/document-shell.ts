import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Printed after each script to mark the end of its output. */
const END_OF_OUTPUT = '\u001e';

/** One shell for a whole document, so that later blocks see variables of earlier blocks. */
export class DocumentShell {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #bash: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #services: ChildProcess[] = [];
  #printed = '';

  /** @param folder working directory */
  constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder;
    this.#env = env;
    this.#bash = this.#spawn(['--noprofile', '--norc'], (text) => {
      this.#printed += text;
    });
    this.#ended = once(this.#bash, 'close').then(() => 'ended');
    this.#bash.stdin?.on('error', () => {});
    this.#bash.stdin?.write('set -euo pipefail; exec 2>&1\n');
  }

  /** Runs a script until its end or the first command that fails. */
  async run(script: string): Promise<{ hasFailed: boolean; printed: string }> {
    const file = path.join(this.#folder, '.block.sh');
    await writeFile(file, script);
    this.#printed = '';
    this.#bash.stdin?.write(`source '${file}' </dev/null; printf '${END_OF_OUTPUT}'\n`);
    while (!this.#printed.endsWith(END_OF_OUTPUT)) {
      const more = once(this.#bash.stdout ?? this.#bash, 'data');
      if ((await Promise.race([this.#ended, more])) === 'ended') {
        return { hasFailed: true, printed: this.#printed };
      }
    }
    return { hasFailed: false, printed: this.#printed.replace(END_OF_OUTPUT, '') };
  }

  /** Starts a service in a new process group. Resolves when it listens. */
  async startService(script: string): Promise<void> {
    const isListening = Promise.withResolvers<void>();
    let printed = '';
    const service = this.#spawn(['-c', script], (text) => {
      printed += text;
      if (printed.includes('nutpost is listening')) {
        isListening.resolve();
      }
    });
    this.#services.push(service);
    service.once('close', () => isListening.reject(new Error(`the service exited: ${printed}`)));
    await isListening.promise;
  }

  /** Stops the services with SIGINT, like Ctrl-C, and then the shell. */
  async close(): Promise<void> {
    const running = this.#services.filter((each) => (each.exitCode ?? each.signalCode) === null);
    for (const service of running) {
      const ended = once(service, 'close');
      process.kill(-Number(service.pid), 'SIGINT');
      await ended;
    }
    this.#bash.kill('SIGKILL');
  }

  #spawn(args: string[], onText: (text: string) => void): ChildProcess {
    const child = spawn('bash', args, { cwd: this.#folder, env: this.#env, detached: true });
    child.stdout.on('data', (chunk) => onText(String(chunk)));
    child.stderr.on('data', (chunk) => onText(String(chunk)));
    return child;
  }
}
