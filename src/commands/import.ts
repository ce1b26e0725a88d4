import { parseArgs } from 'node:util';
import { readArchive } from '../usecases/import-archive.ts';
import { answer } from './answer.ts';
import { importedToText, progressInWords } from './archive-text.ts';
import type { OperatorCommand } from './command.ts';
import { lines } from './plain-text.ts';
import { readLines } from './read-lines.ts';

const NOTHING_TO_READ = lines(
  'There is nothing to read: give the file on standard input, as in `nutpost import < archive`;',
  'and stop the service, where it has an embedded database.',
);

/** `nutpost import`: fills an empty database with what `nutpost export` wrote. */
export const importArchive: OperatorCommand = {
  name: 'import',
  usage: `  import   reads what export wrote from standard input, into a database that is up to date and
           empty: all of it, or nothing
`,
  read: (args) => {
    parseArgs({ args, options: {} });
    return async ({ store, version }, terminal) => {
      const { input, signal } = terminal;
      if (input === null) {
        return answer(false, { text: NOTHING_TO_READ });
      }
      const imported = await readArchive(store, {
        lines: readLines(input),
        onProgress: (done, all) => terminal.progress(progressInWords('Imported', done, all)),
        signal,
      });
      return answer(imported.outcome === 'imported', { text: importedToText(imported, version) });
    };
  },
};
