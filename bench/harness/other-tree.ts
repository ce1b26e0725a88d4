import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** This clone. */
export const OWN_TREE = path.resolve(import.meta.dirname, '../..');

/** Another commit's tree, with the bench/ of this one in it: one measure for both. */
export interface OtherTree extends AsyncDisposable {
  folder: string;
  /** As {@link describeCommit} has it. */
  commit: string | null;
}

/**
 * Checks a commit of a clone out into a temporary folder, to be measured there. It gets packages of its own
 * where its lock file is another one, which takes as long as `npm ci` does.
 *
 * @param own the folder of the clone
 * @throws where git knows no such commit, or its packages cannot be installed
 */
export async function checkOut(own: string, commit: string): Promise<OtherTree> {
  const parent = await mkdtemp(path.join(tmpdir(), 'nutpost-bench-'));
  const folder = path.join(parent, 'tree');
  const git = (...words: string[]) => run('git', words, { cwd: own });
  const remove = async () => {
    await git('worktree', 'remove', '--force', folder).catch(() => undefined);
    await rm(parent, { recursive: true, force: true });
  };
  try {
    await git('worktree', 'add', '--detach', folder, commit);
    const described = await describeCommit(folder);
    await replaceBench(own, folder);
    if (await haveSamePackages(own, folder)) {
      await symlink(path.join(own, 'node_modules'), path.join(folder, 'node_modules'));
    } else {
      await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder });
    }
    return { folder, commit: described, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The commit of a clone, with `-dirty` where files differ from it; null outside of git. */
export async function describeCommit(folder: string): Promise<string | null> {
  return run('git', ['describe', '--always', '--dirty'], { cwd: folder }).then(
    ({ stdout }) => stdout.trim(),
    () => null,
  );
}

async function replaceBench(own: string, folder: string): Promise<void> {
  const [from, to] = [own, folder].map((tree) => path.join(tree, 'bench')) as [string, string];
  await rm(to, { recursive: true, force: true });
  const isCode = (source: string) => source !== path.join(from, 'results');
  await cp(from, to, { recursive: true, filter: isCode });
}

async function haveSamePackages(...trees: string[]): Promise<boolean> {
  const locks = trees.map((tree) => readFile(path.join(tree, 'package-lock.json'), 'utf8'));
  return new Set(await Promise.all(locks)).size === 1;
}
