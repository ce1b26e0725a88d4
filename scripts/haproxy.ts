import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ServerProcess } from './server-process.ts';

/** Debian installs HAProxy in /usr/sbin, which is only on root's PATH. */
const PROGRAM = '/usr/sbin/haproxy';

/** A running HAProxy. */
export class HaproxyProcess {
  readonly #process: ServerProcess;
  readonly #folder: string;
  #isPaused = false;

  private constructor(serverProcess: ServerProcess, folder: string) {
    this.#process = serverProcess;
    this.#folder = folder;
  }

  /** @param port a port of 127.0.0.1 on which the configuration makes HAProxy listen */
  static async start(config: string, port: number): Promise<HaproxyProcess> {
    const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-haproxy-'));
    const configFile = path.join(folder, 'haproxy.cfg');
    await writeFile(configFile, config);
    const serverProcess = new ServerProcess('HAProxy', PROGRAM, ['-db', '-f', configFile], {
      cwd: folder,
    });
    const haproxy = new HaproxyProcess(serverProcess, folder);
    try {
      await serverProcess.waitUntilReady(() => checkListening(port));
      return haproxy;
    } catch (error) {
      await haproxy.stop();
      throw error;
    }
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Freezes HAProxy: the kernel still accepts bytes, but HAProxy does not forward them, as if a cable were cut. */
  pause(): void {
    process.kill(this.pid, 'SIGSTOP');
    this.#isPaused = true;
  }

  resume(): void {
    process.kill(this.pid, 'SIGCONT');
    this.#isPaused = false;
  }

  async stop(): Promise<void> {
    if (this.#isPaused) {
      this.resume();
    }
    await this.#process.stop('SIGTERM');
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function checkListening(port: number): Promise<true | null> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(null));
  });
}
