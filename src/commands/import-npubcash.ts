import { parseArgs } from 'node:util';
import { OperatorError } from '../domain/errors.ts';
import { NpubcashSource } from '../store/npubcash-source.ts';
import type { NpubcashImport, NpubcashRun } from '../usecases/import-npubcash.ts';
import { answer } from './answer.ts';
import {
  type CommandParts,
  type CommandResult,
  type OperatorCommand,
  type Terminal,
  UsageError,
} from './command.ts';
import {
  leftOutToJson,
  npubcashImportToJson,
  npubcashImportToText,
  npubcashProgressToText,
} from './import-npubcash-text.ts';
import { lines } from './plain-text.ts';

const POSTGRES_URL = /^postgres(?:ql)?:\/\//;

/** A server that sorts a million rows says nothing for a while; whoever waits is told that it goes on. */
const TELL_AGAIN_MS = 5_000;

/** `nutpost import-npubcash`: brings over what an npubcash server has. */
export const importNpubcash: OperatorCommand = {
  name: 'import-npubcash',
  usage: `  import-npubcash <database url> [--while-running] [--dry-run] [--report]
           brings over the users, names, blocks and quotes of an npubcash server, which may go on
           working: given again, it goes on where it ended, and brings what is new.
           --while-running leaves quotes that are not paid to a run after npubcash was stopped:
           give it for as long as wallets read there; --dry-run changes nothing; --report writes
           each row that is left out, and the counts at the end, as lines of JSON
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        'while-running': { type: 'boolean', default: false },
        'dry-run': { type: 'boolean', default: false },
        report: { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
    const [url = '', ...others] = positionals;
    if (!POSTGRES_URL.test(url) || others.length > 0) {
      throw new UsageError(
        'Give the url of the database of npubcash, as in postgres://user@host:5432/npubcash.',
      );
    }
    const run = { isEarly: values['while-running'], isDry: values['dry-run'] };
    return async (parts, terminal) => {
      try {
        return await bringOver(url, run, values.report, parts, terminal);
      } catch (error) {
        if (error instanceof OperatorError) {
          return answer(false, { text: lines(error.message) });
        }
        throw error;
      }
    };
  },
};

async function bringOver(
  url: string,
  run: NpubcashRun,
  withReport: boolean,
  { importNpubcash }: CommandParts,
  terminal: Terminal,
): Promise<CommandResult> {
  let progress = 'Reading what there is';
  const tellingAgain = setInterval(() => terminal.progress(progress), TELL_AGAIN_MS);
  try {
    await using closing = new AsyncDisposableStack();
    const source = await NpubcashSource.open(url);
    closing.defer(() => source.close());
    const imported = await importNpubcash.run(source, run, {
      onProgress: (kind, done, total) => {
        progress = npubcashProgressToText(kind, done, total);
        terminal.progress(progress);
      },
      onLeftOut: async (leftOut) => {
        if (withReport) {
          await terminal.write(`${JSON.stringify(leftOutToJson(leftOut))}\n`);
        }
      },
      signal: terminal.signal,
    });
    return await answerImported(imported, run, withReport, terminal);
  } finally {
    clearInterval(tellingAgain);
  }
}

/** Where standard output has the report, a person is told beside it. */
async function answerImported(
  imported: NpubcashImport,
  run: NpubcashRun,
  withReport: boolean,
  terminal: Terminal,
): Promise<CommandResult> {
  const text = npubcashImportToText(imported, run);
  if (!withReport) {
    return answer(true, { text });
  }
  await terminal.write(`${JSON.stringify(npubcashImportToJson(imported, run.isDry))}\n`);
  return { exitCode: 0, stdout: '', stderr: text };
}
