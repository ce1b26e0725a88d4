import {
  ARCHIVE_TABLES,
  type ArchiveCounts,
  archiveHeader,
  archiveLine,
  sumOf,
} from '../domain/archive.ts';
import type { Store } from '../store/store.ts';

/** Where an archive goes. */
export interface ArchiveSink {
  /** Resolves when there is room for more. */
  write(lines: string): Promise<void>;
  onProgress(doneRows: number, allRows: number): void;
  /** Aborted if the archive is no longer wanted. */
  signal: AbortSignal;
}

/**
 * Writes an archive of the database as it is at one moment, while services go on.
 *
 * @param version of this program
 * @throws the reason of the sink's signal, once that is aborted
 */
export function writeArchive(
  store: Store,
  { version, nowMs }: { version: string; nowMs: number },
  { write, onProgress, signal }: ArchiveSink,
): Promise<ArchiveCounts> {
  return store.snapshot(async ({ archive }) => {
    await archive.liftTimeouts();
    const rows = await archive.counts();
    await write(archiveHeader(rows, version, nowMs));
    let doneRows = 0;
    for (const table of ARCHIVE_TABLES) {
      for await (const page of archive.pages(table)) {
        signal.throwIfAborted();
        await write(page.map((row) => archiveLine(table, row)).join(''));
        doneRows += page.length;
        onProgress(doneRows, sumOf(rows));
      }
    }
    return rows;
  });
}
