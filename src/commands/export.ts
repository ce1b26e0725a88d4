import { parseArgs } from 'node:util';
import { writeArchive } from '../usecases/export-archive.ts';
import { progressInWords, rowsInWords } from './archive-text.ts';
import type { OperatorCommand } from './command.ts';
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
      const rows = await writeArchive(
        store,
        { version, nowMs: clock() },
        {
          write: (text) => terminal.write(text),
          onProgress: (done, all) => terminal.progress(progressInWords('Exported', done, all)),
          signal: terminal.signal,
        },
      );
      // Standard output has the archive.
      return { exitCode: 0, stdout: '', stderr: lines(...rowsInWords('Exported', rows)) };
    };
  },
};
