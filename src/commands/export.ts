import { parseArgs } from 'node:util';
import { ExportArchive, type Exported } from '../usecases/export-archive.ts';
import { contradictionsInWords, progressInWords, rowsInWords } from './archive-text.ts';
import type { CommandResult, OperatorCommand } from './command.ts';
import { lines } from './plain-text.ts';

/** `nutpost export`: all that is kept, as lines of JSON. */
export const exportArchive: OperatorCommand = {
  name: 'export',
  usage: `  export   writes all that is kept to standard output: a backup, or to be imported elsewhere.
           It is secret: whoever has it can take money that is waiting
`,
  read: (args) => {
    parseArgs({ args, options: {} });
    return async ({ store, version, clock }, terminal) => {
      const exported = await new ExportArchive(store, version, clock).run({
        write: (text) => terminal.write(text),
        onProgress: (done, all) => terminal.progress(progressInWords('Exported', done, all)),
        signal: terminal.signal,
      });
      return answerExported(exported);
    };
  },
};

/** Standard output has the archive: a person is told beside it. */
function answerExported({ rows, miscounted, misnamed }: Exported): CommandResult {
  const contradictions = contradictionsInWords(miscounted, misnamed);
  const warning =
    contradictions.length === 0
      ? []
      : ['An import of it will be refused, until this is mended:', ...contradictions];
  const stderr = lines(...rowsInWords('Exported', rows), ...warning);
  return { exitCode: 0, stdout: '', stderr };
}
