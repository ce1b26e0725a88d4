import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

const SOURCE = path.join(import.meta.dirname, 'faulty-disk.c');

/** `struct header` in the C file. */
const HEADER_BYTES = 24;

type DiskOperationKind = 'write' | 'truncate' | 'sync' | 'unlink';

const OPERATION_KINDS: Readonly<Record<string, DiskOperationKind>> = {
  W: 'write',
  T: 'truncate',
  S: 'sync',
  U: 'unlink',
};

interface DiskOperation {
  kind: DiskOperationKind;
  path: string;
  data: Buffer;
  /** Offset of a write, or the new length of a truncated file. */
  offset: number;
}

/** A simulated disk for the data directory of a process: it can lose power, fill up and be slow. */
export class FaultyDisk {
  readonly dataDir: string;
  /** Environment of the processes that use the disk. */
  readonly env: Record<string, string>;
  readonly #folder: string;
  readonly #journal: string;
  readonly #fullFlag: string;

  /** @param syncMs duration of a sync */
  constructor({ syncMs = 0 } = {}) {
    this.#folder = fs.realpathSync(fs.mkdtempSync(path.join(tmpdir(), 'nutpost-disk-')));
    onTestFinished(() => fs.rmSync(this.#folder, { recursive: true, force: true }));
    this.dataDir = path.join(this.#folder, 'data');
    this.#journal = path.join(this.#folder, 'journal');
    this.#fullFlag = path.join(this.#folder, 'is-full');
    fs.writeFileSync(this.#journal, '');
    this.env = {
      DATA_DIR: this.dataDir,
      LD_PRELOAD: compilePreloadLibrary(this.#folder),
      FAULTY_DISK: this.dataDir,
      FAULTY_DISK_JOURNAL: this.#journal,
      FAULTY_DISK_FULL: this.#fullFlag,
      FAULTY_DISK_SYNC_MS: String(syncMs),
    };
  }

  simulateFull(): void {
    fs.writeFileSync(this.#fullFlag, '');
  }

  clearFull(): void {
    fs.rmSync(this.#fullFlag);
  }

  /** Returns the position of the last write, for {@link simulatePowerCut}. */
  journalPosition(): number {
    return fs.statSync(this.#journal).size;
  }

  /**
   * Creates the data directory that a power cut at a position leaves.
   *
   * @param shouldSurvive decides whether an unsynced change survives
   */
  simulatePowerCut(position: number, shouldSurvive: () => boolean): string {
    const dataDir = path.join(fs.mkdtempSync(path.join(this.#folder, 'cut-')), 'data');
    fs.mkdirSync(dataDir);
    const journal = fs.readFileSync(this.#journal).subarray(0, position);
    for (const [name, { synced, unsynced }] of replayJournal(
      journal,
      this.dataDir,
      shouldSurvive,
    )) {
      const fd = fs.openSync(path.join(dataDir, path.basename(name)), 'w', 0o600);
      for (const change of [...synced, ...unsynced.filter(shouldSurvive)]) {
        applyOperation(fd, change);
      }
      fs.closeSync(fd);
    }
    return dataDir;
  }
}

interface ReplayedFile {
  synced: DiskOperation[];
  unsynced: DiskOperation[];
}

/**
 * Returns the files that remain. A name appears and disappears when its directory is synced, not when its file is.
 * Unsynced name changes survive in their order, or not at all.
 */
function replayJournal(
  journal: Buffer,
  dataDir: string,
  shouldSurvive: () => boolean,
): Map<string, ReplayedFile> {
  const files = new Map<string, ReplayedFile>();
  const names = new Map<string, ReplayedFile>();
  let unsyncedNames: [name: string, file: ReplayedFile | null][] = [];
  const keepName = ([name, file]: [string, ReplayedFile | null]) =>
    file === null ? names.delete(name) : names.set(name, file);
  for (const record of readRecords(journal)) {
    if (record.kind === 'unlink') {
      files.delete(record.path);
      unsyncedNames.push([record.path, null]);
    } else if (record.path === dataDir) {
      unsyncedNames.forEach(keepName);
      unsyncedNames = [];
    } else {
      const file = files.get(record.path) ?? { synced: [], unsynced: [] };
      if (!files.has(record.path)) {
        files.set(record.path, file);
        unsyncedNames.push([record.path, file]);
      }
      if (record.kind === 'sync') {
        file.synced.push(...file.unsynced);
        file.unsynced = [];
      } else {
        file.unsynced.push(record);
      }
    }
  }
  const lost = unsyncedNames.findIndex(() => !shouldSurvive());
  unsyncedNames.slice(0, lost === -1 ? undefined : lost).forEach(keepName);
  return names;
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
    const reason = 'this test needs Linux and a C compiler: install gcc, so that `cc` runs';
    throw new Error(reason, { cause: error });
  }
  return library;
}

/** The last record may be incomplete if its process was killed. */
function* readRecords(journal: Buffer): Generator<DiskOperation> {
  for (let at = 0; at + HEADER_BYTES <= journal.length; ) {
    const pathStart = at + HEADER_BYTES;
    const dataStart = pathStart + journal.readUInt32LE(at + 4);
    const end = dataStart + journal.readUInt32LE(at + 8);
    if (end > journal.length) {
      return;
    }
    yield {
      kind: OPERATION_KINDS[String.fromCharCode(journal[at] ?? 0)] ?? 'write',
      path: journal.toString('utf8', pathStart, dataStart),
      data: journal.subarray(dataStart, end),
      offset: Number(journal.readBigInt64LE(at + 16)),
    };
    at = end;
  }
}
