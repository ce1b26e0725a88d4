import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/** The shell prints this character after each script. It marks the end of the script's output. */
const END_OF_OUTPUT = '\u001e';

/** Runs all code blocks of a document in one shell, so that later blocks can use variables of earlier blocks. */
export class DocumentShell {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #bash: ChildProcess;
  readonly #shellExit: Promise<'shell exited'>;
  readonly #services: ChildProcess[] = [];
  #printed = '';

  constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder;
    this.#env = env;
    this.#bash = this.#spawn(['--noprofile', '--norc'], (text) => {
      this.#printed += text;
    });
    this.#shellExit = once(this.#bash, 'close').then(() => 'shell exited');
    // Without a listener, a write after the exit of the shell would end the test process.
    this.#bash.stdin?.on('error', () => {});
    this.#bash.stdin?.write('set -euo pipefail; exec 2>&1\n');
  }

  /** Runs a script until its end or until a command fails. A failure ends the shell. */
  async run(script: string): Promise<{ hasFailed: boolean; printed: string }> {
    const scriptFile = path.join(this.#folder, '.block.sh');
    await writeFile(scriptFile, script);
    this.#printed = '';
    this.#bash.stdin?.write(`source '${scriptFile}' </dev/null; printf '${END_OF_OUTPUT}'\n`);
    while (!this.#printed.endsWith(END_OF_OUTPUT)) {
      const moreOutput = once(this.#bash.stdout ?? this.#bash, 'data');
      if ((await Promise.race([this.#shellExit, moreOutput])) === 'shell exited') {
        return { hasFailed: true, printed: this.#printed };
      }
    }
    return { hasFailed: false, printed: this.#printed.replace(END_OF_OUTPUT, '') };
  }

  async startService(script: string): Promise<void> {
    const listening = Promise.withResolvers<void>();
    let printed = '';
    const service = this.#spawn(['-c', script], (text) => {
      printed += text;
      if (printed.includes('nutpost is listening')) {
        listening.resolve();
      }
    });
    this.#services.push(service);
    service.once('close', () => listening.reject(new Error(`the service exited: ${printed}`)));
    await listening.promise;
  }

  /** Stops the services with SIGINT, like Ctrl-C, and then the shell. */
  async close(): Promise<void> {
    const running = this.#services.filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    for (const service of running) {
      const exit = once(service, 'close');
      process.kill(-Number(service.pid), 'SIGINT');
      await exit;
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
