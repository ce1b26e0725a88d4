import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

const SOURCE = path.join(import.meta.dirname, 'faulty-disk.c');

/** `struct header` in the C file. */
const HEADER_BYTES = 24;

type Kind = 'write' | 'truncate' | 'sync' | 'unlink';

const KINDS: Readonly<Record<string, Kind>> = { W: 'write', T: 'truncate', S: 'sync', U: 'unlink' };

interface JournalRecord {
  kind: Kind;
  path: string;
  data: Buffer;
  /** Of a write; the new length of a truncated file. */
  offset: number;
}

/** A disk for the data directory of a process. It can lose power, fill up, and be slow. */
export class FaultyDisk {
  readonly dataDir: string;
  /** Settings of the processes that are to use it. */
  readonly env: Record<string, string>;
  readonly #folder: string;
  readonly #journal: string;
  readonly #fullFlag: string;

  /** @param syncMs how long a sync takes */
  constructor({ syncMs = 0 } = {}) {
    this.#folder = fs.realpathSync(fs.mkdtempSync(path.join(tmpdir(), 'nutpost-disk-')));
    onTestFinished(() => fs.rmSync(this.#folder, { recursive: true, force: true }));
    this.dataDir = path.join(this.#folder, 'data');
    this.#journal = path.join(this.#folder, 'journal');
    this.#fullFlag = path.join(this.#folder, 'is-full');
    fs.writeFileSync(this.#journal, '');
    this.env = {
      DATA_DIR: this.dataDir,
      LD_PRELOAD: compile(this.#folder),
      FAULTY_DISK: this.dataDir,
      FAULTY_DISK_JOURNAL: this.#journal,
      FAULTY_DISK_FULL: this.#fullFlag,
      FAULTY_DISK_SYNC_MS: String(syncMs),
    };
  }

  fill(): void {
    fs.writeFileSync(this.#fullFlag, '');
  }

  free(): void {
    fs.rmSync(this.#fullFlag);
  }

  /** What was written until now, as a position for {@link leftByPowerCut}. */
  position(): number {
    return fs.statSync(this.#journal).size;
  }

  /**
   * Creates the data directory that a power cut at a position leaves.
   *
   * @param survives decides about each change that was not synced
   */
  leftByPowerCut(position: number, survives: () => boolean): string {
    const dataDir = path.join(fs.mkdtempSync(path.join(this.#folder, 'cut-')), 'data');
    fs.mkdirSync(dataDir);
    const journal = fs.readFileSync(this.#journal).subarray(0, position);
    for (const [name, { synced, unsynced }] of replay(journal, this.dataDir, survives)) {
      const fd = fs.openSync(path.join(dataDir, path.basename(name)), 'w', 0o600);
      for (const change of [...synced, ...unsynced.filter(survives)]) {
        apply(fd, change);
      }
      fs.closeSync(fd);
    }
    return dataDir;
  }
}

interface DiskFile {
  synced: JournalRecord[];
  unsynced: JournalRecord[];
}

/**
 * Returns the files that remain. A name appears and disappears when its directory is synced, not when its file is.
 * What happened to names without it remains in the order in which it happened, or not at all.
 */
function replay(journal: Buffer, dataDir: string, survives: () => boolean): Map<string, DiskFile> {
  const files = new Map<string, DiskFile>();
  const names = new Map<string, DiskFile>();
  let unsyncedNames: [name: string, file: DiskFile | null][] = [];
  const keepName = ([name, file]: [string, DiskFile | null]) =>
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
  const lost = unsyncedNames.findIndex(() => !survives());
  unsyncedNames.slice(0, lost === -1 ? undefined : lost).forEach(keepName);
  return names;
}

function apply(fd: number, { kind, data, offset }: JournalRecord): void {
  if (kind === 'truncate') {
    fs.ftruncateSync(fd, offset);
  } else {
    fs.writeSync(fd, data, 0, data.length, offset);
  }
}

function compile(folder: string): string {
  const library = path.join(folder, 'faulty-disk.so');
  try {
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-o', library, SOURCE, '-ldl']);
  } catch (error) {
    const reason = 'this test needs Linux and a C compiler: install gcc, so that `cc` runs';
    throw new Error(reason, { cause: error });
  }
  return library;
}

/** The last record may be torn: its process was killed. */
function* readRecords(journal: Buffer): Generator<JournalRecord> {
  for (let at = 0; at + HEADER_BYTES <= journal.length; ) {
    const pathStart = at + HEADER_BYTES;
    const dataStart = pathStart + journal.readUInt32LE(at + 4);
    const end = dataStart + journal.readUInt32LE(at + 8);
    if (end > journal.length) {
      return;
    }
    yield {
      kind: KINDS[String.fromCharCode(journal[at] ?? 0)] ?? 'write',
      path: journal.toString('utf8', pathStart, dataStart),
      data: journal.subarray(dataStart, end),
      offset: Number(journal.readBigInt64LE(at + 16)),
    };
    at = end;
  }
}
