import { parseArgs } from 'node:util';
import { OperatorError } from '../../errors.ts';
import { answer, type OperatorCommand } from '../command.ts';
import { count, lines, number } from '../format.ts';
import { type Imported, readArchive, writeArchive } from './archive.ts';
import { ARCHIVE_TABLES, type ArchiveCounts, sumOf } from './archive-format.ts';

/** `nutpost export`: all data, as lines of JSON on standard output. */
export const exportArchive: OperatorCommand = {
  name: 'export',
  usage: `  export   writes all data to standard output, as a backup or for an import elsewhere.
           It is secret: anyone who has it can take money that was not collected yet
`,
  read: (args) => {
    parseArgs({ args, options: {} });
    return async ({ store, version, clock }, terminal) => {
      const rows = await writeArchive(
        store,
        { version, nowMs: clock() },
        {
          write: (text) => terminal.write(text),
          onProgress: (done, all) => terminal.progress(progressText('Exported', done, all)),
          signal: terminal.signal,
        },
      );
      // Standard output has the archive.
      return { exitCode: 0, stdout: '', stderr: lines(...rowLines('Exported', rows)) };
    };
  },
};

/** `nutpost import`: fills an empty database with what `nutpost export` wrote. */
export const importArchive: OperatorCommand = {
  name: 'import',
  usage: `  import   reads what export wrote from standard input, into an empty database that is up to
           date: all of it, or nothing
`,
  read: (args) => {
    parseArgs({ args, options: {} });
    return async ({ store, version }, terminal) => {
      const { input, signal } = terminal;
      if (input === null) {
        return answer(false, NOTHING_TO_READ);
      }
      const imported = await readArchive(store, {
        lines: readLines(input),
        onProgress: (done, all) => terminal.progress(progressText('Imported', done, all)),
        signal,
      });
      return answer(imported.outcome === 'imported', importedToText(imported, version));
    };
  },
};

const NOTHING_TO_READ = lines(
  'There is nothing to read: give the file on standard input, as in `nutpost import < archive`.',
);

function progressText(verb: string, doneRows: number, allRows: number): string {
  const percent = Math.floor((100 * doneRows) / allRows);
  return `${verb} ${number(doneRows)} of ${count(allRows, 'row')} (${percent} %)`;
}

function importedToText(imported: Imported, version: string): string {
  switch (imported.outcome) {
    case 'imported':
      return lines(...rowLines('Imported', imported.rows));
    case 'not_empty':
      return lines(
        `Nothing was imported: the database is not empty (${imported.tables.join(', ')}).`,
        'Give one that `nutpost migrate` has just made.',
      );
    case 'wrong_line': {
      const { line, problem, writer } = imported;
      const advice = `nutpost ${writer} wrote it: import it with that version, and upgrade afterwards.`;
      return lines(
        `Nothing was imported. Line ${line}: ${problem}.`,
        ...(writer === null || writer === version ? [] : [advice]),
      );
    }
  }
}

/** The number of rows of each table, and what is needed to read the ecash among them. */
function rowLines(verb: string, rows: ArchiveCounts): string[] {
  const filled = ARCHIVE_TABLES.filter((table) => rows[table] > 0);
  const width = Math.max(0, ...filled.map((table) => table.length));
  const ecashRows = rows.treasury_proofs + rows.treasury_withdrawals + rows.username_purchases;
  return [
    `${verb} ${count(sumOf(rows), 'row')}.`,
    ...filled.map((table) => `  ${table.padEnd(width)}  ${number(rows[table])}`),
    ...(ecashRows === 0
      ? []
      : [
          'There is ecash among them, which only the treasury secret opens: keep TREASURY_SECRET as it was' +
            ' (if it is not set: the file treasury-secret of DATA_DIR).',
        ]),
  ];
}

/** The longest line is a row of a journal with its outputs: kilobytes. */
const MAX_LINE_LENGTH = 8 * 1024 * 1024;

/**
 * Yields the lines of a stream of UTF-8, each without its end. Holds one line and one chunk in memory.
 *
 * @throws OperatorError if a line is too long, or not UTF-8
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let lineNumber = 1;
  let rest = '';
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new OperatorError(`Line ${lineNumber} or a later one: is not UTF-8.`);
    }
  };
  for await (const chunk of chunks) {
    const lines = (rest + decode(chunk)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      yield line;
      lineNumber += 1;
    }
    if (rest.length > MAX_LINE_LENGTH) {
      throw new OperatorError(`Line ${lineNumber}: is longer than ${MAX_LINE_LENGTH} characters.`);
    }
  }
  rest += decode();
  if (rest !== '') {
    yield rest;
  }
}
