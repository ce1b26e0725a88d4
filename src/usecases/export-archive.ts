import {
  ARCHIVE_TABLES,
  type ArchiveCounts,
  type ArchiveTable,
  archiveHeader,
  archiveLine,
} from '../domain/archive.ts';
import type { Clock } from '../domain/clock.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import type { Store } from '../store/store.ts';

/** Where an archive goes. */
export interface ArchiveSink {
  /** Resolves when there is room for more. */
  write(lines: string): Promise<void>;
  /** Told how far it is. */
  onProgress(doneRows: number, allRows: number): void;
  /** Aborted where nobody wants it any more. */
  signal: AbortSignal;
}

/** What was written, and what in it contradicts itself: {@link ImportArchive} would refuse that. */
export interface Exported {
  rows: ArchiveCounts;
  /** Recipients (hex) whose counter of payments is not that of their list; the first few. */
  miscounted: string[];
  /** Names that resolve to nobody or are not in use; the first few. */
  misnamed: string[];
}

/** Writes down all that is kept, as it is at one moment, beside services that go on. */
export class ExportArchive {
  readonly #store: Store;
  readonly #version: string;
  readonly #clock: Clock;

  /** @param version of this program: the one that can import what is written */
  constructor(store: Store, version: string, clock: Clock) {
    this.#store = store;
    this.#version = version;
    this.#clock = clock;
  }

  /**
   * An embedded database can do nothing else meanwhile: there the sink should be quick.
   *
   * @throws the reason of the sink's signal, once that is aborted
   */
  run({ write, onProgress, signal }: ArchiveSink): Promise<Exported> {
    return this.#store.transaction(async ({ archive }) => {
      await archive.freeze();
      const rows = await countAll(archive);
      const allRows = sumOf(rows);
      await write(archiveHeader(rows, this.#version, this.#clock()));
      let doneRows = 0;
      for (const table of ARCHIVE_TABLES) {
        for await (const page of archive.pages(table)) {
          signal.throwIfAborted();
          await write(page.map((row) => archiveLine(table, row)).join(''));
          doneRows += page.length;
          onProgress(doneRows, allRows);
        }
      }
      return { rows, miscounted: await archive.miscounted(), misnamed: await archive.misnamed() };
    });
  }
}

async function countAll(archive: ArchiveStore): Promise<ArchiveCounts> {
  const counts: [ArchiveTable, number][] = [];
  for (const table of ARCHIVE_TABLES) {
    counts.push([table, await archive.count(table)]);
  }
  return Object.fromEntries(counts) as ArchiveCounts;
}

/** All of them. */
export function sumOf(rows: ArchiveCounts): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0);
}
