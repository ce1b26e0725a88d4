import fs from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';
import { OperatorError } from '../domain/errors.ts';
import { lockDataDir } from './data-dir-lock.ts';

/** PGlite lets everybody read and write its files, and quote ids are secret: nobody else may enter. */
const PRIVATE = 0o700;

/** A slow disk brings several changes home in the time of one; Node has as many threads for it. */
const SYNCS_AT_ONCE = 4;

/** An open embedded database and how to let go of its directory, once it is closed. */
export interface Embedded {
  pglite: PGlite;
  release: () => void;
}

/**
 * Opens PostgreSQL inside this process.
 *
 * @param dataDir where its files are kept and synced at every commit
 * @param waitMs so long another process may take to let go of the directory
 * @throws DataDirInUseError where another process has it open: two would destroy it
 * @throws OperatorError where the directory cannot be used
 */
export async function openEmbedded(dataDir: string, waitMs: number): Promise<Embedded> {
  const release = takeDataDir(dataDir, waitMs);
  try {
    return { pglite: await openFiles(dataDir), release };
  } catch (error) {
    release();
    throw error;
  }
}

/** Opens one that is gone when it is closed. @param dump of another one, to begin with */
export async function openInMemory(dump: Blob | undefined): Promise<Embedded> {
  const pglite = await PGlite.create(dump === undefined ? {} : { loadDataDir: dump });
  return { pglite, release: () => undefined };
}

/** @throws OperatorError where no database was ever made in the directory */
export function refuseMissingFiles(dataDir: string): void {
  if (!hasDatabase(dataDir)) {
    throw new OperatorError(`DATA_DIR: there is no database in ${dataDir}.`);
  }
}

/** Whether a database was ever made in a directory. */
export function hasDatabase(dataDir: string): boolean {
  return fs.existsSync(filesOf(dataDir));
}

/**
 * PGlite would make a new database over what is left of one.
 *
 * @throws OperatorError
 */
function refuseDamagedFiles(files: string): void {
  if (!fs.existsSync(path.join(files, 'PG_VERSION'))) {
    throw new OperatorError(
      `DATA_DIR: the database in ${files} is damaged (PG_VERSION is missing): restore a backup, or what a` +
        ' repair of the disk put aside.',
    );
  }
}

function filesOf(dataDir: string): string {
  return path.join(dataDir, 'postgres');
}

function takeDataDir(dataDir: string, waitMs: number): () => void {
  try {
    fs.mkdirSync(dataDir, { recursive: true });
    fs.accessSync(dataDir, fs.constants.W_OK);
  } catch (error) {
    throw new OperatorError(
      `DATA_DIR: the directory cannot be used (${(error as Error).message}).`,
    );
  }
  return lockDataDir(dataDir, waitMs);
}

async function openFiles(dataDir: string): Promise<PGlite> {
  const files = filesOf(dataDir);
  if (!fs.existsSync(files)) {
    await createFiles(files);
  }
  refuseDamagedFiles(files);
  fs.chmodSync(files, PRIVATE);
  return PGlite.create({
    fs: new SyncingNodeFs(files),
    startParams: [...SYNC_AT_COMMIT, ...FEW_BUFFERS],
  });
}

/**
 * Makes a database under another name, which it sheds when it is whole and on the disk: a first start
 * that is interrupted leaves nothing that could be taken for a database, and nothing was kept in it.
 */
async function createFiles(files: string): Promise<void> {
  const unfinished = `${files}.new`;
  fs.rmSync(unfinished, { recursive: true, force: true });
  fs.mkdirSync(unfinished, { mode: PRIVATE });
  const pglite = await PGlite.create({
    fs: new NodeFS(unfinished),
    startParams: [...PGlite.defaultStartParams, ...FEW_BUFFERS],
  });
  await pglite.close();
  await syncTree(unfinished);
  fs.renameSync(unfinished, files);
  await syncOne(path.dirname(files));
}

/** Brings to the disk what was written without syncing. */
async function syncTree(folder: string): Promise<void> {
  const inside = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const waiting = [folder, ...inside.map((each) => path.join(folder, each))].values();
  const syncInTurn = async () => {
    for (const each of waiting) {
      await syncOne(each);
    }
  };
  await Promise.all(Array.from({ length: SYNCS_AT_ONCE }, syncInTurn));
}

async function syncOne(fileOrFolder: string): Promise<void> {
  const handle = await open(fileOrFolder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** PGlite starts with `-F`, which turns syncing off, and its `fdatasync` does nothing: use `fsync`. */
const SYNC_AT_COMMIT = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
  '-c',
  'wal_sync_method=fsync',
];

/**
 * PostgreSQL would take 128 MB, at once, for pages of its files. The system has them in its own memory too,
 * and gives it back to whoever needs it.
 */
const FEW_BUFFERS = ['-c', 'shared_buffers=32MB'];

/** The part of Emscripten's file system that PGlite's types leave out. */
interface EmscriptenModule {
  NODEFS: { stream_ops: { fsync?: (stream: { nfd: number }) => number } };
}

/** Files on the disk whose syncs reach it: a commit that was answered survives a power cut. */
class SyncingNodeFs extends NodeFS {
  override async init(...[pg, options]: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(pg, options);
    const makeSyncReal = (module: unknown) => {
      const { NODEFS } = module as EmscriptenModule;
      NODEFS.stream_ops.fsync = (stream) => {
        fs.fdatasyncSync(stream.nfd);
        return 0;
      };
    };
    return {
      emscriptenOpts: {
        ...emscriptenOpts,
        preRun: [...(emscriptenOpts.preRun ?? []), makeSyncReal],
      },
    };
  }
}
