import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { chmod, copyFile, cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { exists, run } from '../../../scripts/machine.ts';

/** The user of the official Node image that is not root. */
const NODE_USER = { name: 'node', id: 1000 };

/** What the commands of the last stage call, beside Node. */
const PROGRAMS = ['/bin/sh', '/bin/mkdir', '/bin/chown'];

const SEARCH_PATH = '/usr/local/bin:/usr/bin:/bin';

/** Dropping the privileges of root and changing the root are root's alone. */
export const canChangeRoot = process.getuid?.() === 0;

/** A program in a {@link ScratchRoot}. */
export type ContainedProcess = ChildProcessByStdio<null, Readable, Readable>;

/** A file system with little more in it than Node and a shell, as an image of Node has, and a stage's own. */
export class ScratchRoot {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<ScratchRoot> {
    const root = new ScratchRoot(await mkdtemp(path.join(tmpdir(), 'nutpost-root-')));
    await chmod(root.folder, 0o755);
    await root.#bring(process.execPath, '/usr/local/bin/node');
    for (const program of PROGRAMS) {
      await root.#bring(program, program);
    }
    await mkdir(root.at('/etc'));
    const { name, id } = NODE_USER;
    await writeFile(root.at('/etc/passwd'), `root:x:0:0::/:\n${name}:x:${id}:${id}::/home/node:\n`);
    await writeFile(root.at('/etc/group'), `root:x:0:\n${name}:x:${id}:\n`);
    await cp('/etc/hosts', root.at('/etc/hosts'));
    return root;
  }

  /** Where a path of it is outside of it. */
  at(inside: string): string {
    return path.join(this.folder, inside);
  }

  /** Starts a program in it, with these settings and no others. */
  start(
    command: readonly string[],
    options: { user: string; folder: string; env: Record<string, string> },
  ): ContainedProcess {
    const id = options.user === NODE_USER.name ? NODE_USER.id : 0;
    // The folder is changed behind the root.
    const inFolder = ['/bin/sh', '-c', 'cd "$0" && exec "$@"', options.folder];
    return spawn(
      '/usr/sbin/chroot',
      [`--userspec=${id}:${id}`, this.folder, ...inFolder, ...command],
      {
        env: { ...options.env, PATH: SEARCH_PATH },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
  }

  /** Lets nobody but root write anywhere in these folders. */
  async makeReadOnly(...folders: readonly string[]): Promise<void> {
    for (const folder of folders) {
      await run('chmod', ['-R', 'a-w', this.at(folder)]);
    }
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Copies a program and the libraries that it is linked with. */
  async #bring(program: string, inside: string): Promise<void> {
    const { stdout } = await run('ldd', [program]);
    const libraries = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, library = '']) => library);
    for (const [from, to] of [[program, inside], ...libraries.map((each) => [each, each])]) {
      const target = this.at(to ?? '');
      if (from !== undefined && !(await exists(target))) {
        await mkdir(path.dirname(target), { recursive: true });
        await copyFile(await realpath(from), target);
      }
    }
  }
}
