import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

const SOURCE = path.join(import.meta.dirname, 'faulty-disk.c');

/** Size of `struct log_header` in the C file. */
const HEADER_BYTES = 24;

const OPERATION_KINDS = { W: 'write', T: 'truncate', S: 'sync', U: 'unlink' } as const;

interface DiskOperation {
  kind: (typeof OPERATION_KINDS)[keyof typeof OPERATION_KINDS];
  path: string;
  data: Buffer;
  /** Offset of a write, or the new length of a truncated file. */
  offset: number;
}

/** Simulates a disk that loses power, is full or is slow. Processes with `env` store their data on this disk. */
export class FaultyDisk {
  readonly dataDir: string;
  readonly env: Record<string, string>;
  readonly #folder: string;
  readonly #logFile: string;
  readonly #fullFlagFile: string;

  /** @param syncDurationMs how long each `fsync` takes */
  constructor({ syncDurationMs = 0 } = {}) {
    this.#folder = fs.realpathSync(fs.mkdtempSync(path.join(tmpdir(), 'nutpost-disk-')));
    onTestFinished(() => fs.rmSync(this.#folder, { recursive: true, force: true }));
    this.dataDir = path.join(this.#folder, 'data');
    this.#logFile = path.join(this.#folder, 'operations');
    this.#fullFlagFile = path.join(this.#folder, 'is-full');
    fs.writeFileSync(this.#logFile, '');
    this.env = {
      DATA_DIR: this.dataDir,
      LD_PRELOAD: compilePreloadLibrary(this.#folder),
      FAULTY_DISK: this.dataDir,
      FAULTY_DISK_LOG: this.#logFile,
      FAULTY_DISK_FULL: this.#fullFlagFile,
      FAULTY_DISK_SYNC_MS: String(syncDurationMs),
    };
  }

  simulateFull(): void {
    fs.writeFileSync(this.#fullFlagFile, '');
  }

  clearFull(): void {
    fs.rmSync(this.#fullFlagFile);
  }

  operationLogPosition(): number {
    return fs.statSync(this.#logFile).size;
  }

  /**
   * Creates a data directory with the files that remain after a power cut.
   *
   * @param position the point in the log of disk operations at which the power fails
   * @param shouldSurvive called for each unsynced change; returns whether the change reached the disk
   */
  simulatePowerCut(position: number, shouldSurvive: () => boolean): string {
    const dataDir = path.join(fs.mkdtempSync(path.join(this.#folder, 'cut-')), 'data');
    fs.mkdirSync(dataDir);
    const operationLog = fs.readFileSync(this.#logFile).subarray(0, position);
    const remainingFiles = replayOperations(operationLog, this.dataDir, shouldSurvive);
    for (const [file, { synced, unsynced }] of remainingFiles) {
      const fd = fs.openSync(path.join(dataDir, path.basename(file)), 'w', 0o600);
      for (const change of [...synced, ...unsynced.filter(shouldSurvive)]) {
        applyOperation(fd, change);
      }
      fs.closeSync(fd);
    }
    return dataDir;
  }
}

interface FileChanges {
  synced: DiskOperation[];
  unsynced: DiskOperation[];
}

/** A file that was created, or deleted if `changes` is null. */
type DirectoryChange = [path: string, changes: FileChanges | null];

/**
 * Returns the files that exist after a power cut, by path. A sync of a file makes its content durable, and a sync
 * of the directory makes the creation and deletion of files durable. Unsynced directory changes are lost from the
 * first one that does not survive.
 */
function replayOperations(
  operationLog: Buffer,
  dataDir: string,
  shouldSurvive: () => boolean,
): Map<string, FileChanges> {
  const currentFiles = new Map<string, FileChanges>();
  const durableFiles = new Map<string, FileChanges>();
  let unsyncedDirectoryChanges: DirectoryChange[] = [];
  const makeDurable = ([file, changes]: DirectoryChange) =>
    changes === null ? durableFiles.delete(file) : durableFiles.set(file, changes);
  for (const operation of parseOperations(operationLog)) {
    if (operation.kind === 'unlink') {
      currentFiles.delete(operation.path);
      unsyncedDirectoryChanges.push([operation.path, null]);
    } else if (operation.path === dataDir) {
      unsyncedDirectoryChanges.forEach(makeDurable);
      unsyncedDirectoryChanges = [];
    } else {
      const changes = currentFiles.get(operation.path) ?? { synced: [], unsynced: [] };
      if (!currentFiles.has(operation.path)) {
        currentFiles.set(operation.path, changes);
        unsyncedDirectoryChanges.push([operation.path, changes]);
      }
      if (operation.kind === 'sync') {
        changes.synced.push(...changes.unsynced);
        changes.unsynced = [];
      } else {
        changes.unsynced.push(operation);
      }
    }
  }
  const firstLost = unsyncedDirectoryChanges.findIndex(() => !shouldSurvive());
  unsyncedDirectoryChanges.slice(0, firstLost === -1 ? undefined : firstLost).forEach(makeDurable);
  return durableFiles;
}

function applyOperation(fd: number, { kind, data, offset }: DiskOperation): void {
  if (kind === 'truncate') {
    fs.ftruncateSync(fd, offset);
  } else {
    fs.writeSync(fd, data, 0, data.length, offset);
  }
}

function compilePreloadLibrary(folder: string): string {
  const library = path.join(folder, 'faulty-disk.so');
  try {
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-o', library, SOURCE, '-ldl']);
  } catch (error) {
    const reason = 'this test needs Linux and a C compiler: install gcc, which provides `cc`';
    throw new Error(reason, { cause: error });
  }
  return library;
}

/** Ignores an incomplete operation at the end of the log. */
function* parseOperations(operationLog: Buffer): Generator<DiskOperation> {
  for (let start = 0; start + HEADER_BYTES <= operationLog.length; ) {
    const pathStart = start + HEADER_BYTES;
    const dataStart = pathStart + operationLog.readUInt32LE(start + 4);
    const end = dataStart + operationLog.readUInt32LE(start + 8);
    if (end > operationLog.length) {
      return;
    }
    yield {
      kind: OPERATION_KINDS[operationLog.toString('latin1', start, start + 1) as 'W'],
      path: operationLog.toString('utf8', pathStart, dataStart),
      data: operationLog.subarray(dataStart, end),
      offset: Number(operationLog.readBigInt64LE(start + 16)),
    };
    start = end;
  }
}
