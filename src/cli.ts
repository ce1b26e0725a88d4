import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Config, isRunByNpm, readCommandConfig, readConfig } from './config.ts';
import { openDatabase } from './database/database.ts';
import { DatabaseUnavailableError, OperatorError, rootCauseMessage } from './errors.ts';
import { formatErrorForTerminal } from './log.ts';
import { restoreCommand } from './operator/backup/restore.ts';
import {
  type Command,
  type CommandResult,
  defineCommand,
  formatUsage,
  JSON_HINT,
  type OptionParsers,
  parseArguments,
  parseOrExplain,
  UsageError,
} from './operator/command.ts';
import {
  COMMAND_WORDS,
  COMMANDS_USAGE,
  parseCommand,
  runOperatorCommand,
} from './operator/commands.ts';
import { doctorCommand } from './operator/doctor/doctor.ts';
import { parseIntegerFrom } from './operator/options.ts';
import { ProcessIo } from './operator/process-io.ts';
import { startService } from './service.ts';
import { VERSION } from './version.ts';

const migrateCommand = defineCommand({
  name: 'migrate',
  description: 'applies missing database migrations and exits',
  run: async (config: Config, _options, _operands, io) => {
    const onProgress = (line: string) => io.reportProgress(line);
    const database = await openDatabase(config.database, () => undefined, onProgress);
    await database.close();
    const lines = ['The database is up to date.'];
    return { isSuccess: true, json: { outcome: 'up_to_date' }, lines };
  },
});

const SERVE_USAGE = formatUsage(
  'serve',
  'runs the service with the settings of the environment (see .env.example)',
);
const DEMO_USAGE = formatUsage(
  'demo',
  'demonstrates a payment with a test mint, step by step; --keep keeps it running, --port <number> sets the port of the service; the payment server uses the next port',
);
const VERSION_USAGE = formatUsage('--version', 'prints the version');
const USAGE = `Usage: nutpost <command>

${SERVE_USAGE}${migrateCommand.usage}${COMMANDS_USAGE}${restoreCommand.usage}${DEMO_USAGE}${VERSION_USAGE}
${JSON_HINT}
`;

const [commandName = 'serve', ...args] = process.argv.slice(2);
process.stdout.on('error', exitWithOutputError);
await dispatch(commandName).catch(exitWithError);

async function dispatch(command: string): Promise<void> {
  switch (command) {
    case 'serve':
      parseOptions(SERVE_USAGE, {});
      return serve();
    case 'migrate':
      return runCommand(migrateCommand, readCommandConfig);
    case 'doctor':
      return runCommand(doctorCommand, () => null);
    case 'restore':
      return runCommand(restoreCommand, readCommandConfig);
    case 'demo':
      return demo(parseOptions(DEMO_USAGE, { keep: 'flag', port: parseIntegerFrom(0, 65_534) }));
    case 'help':
    case '--help':
    case '-h':
      parseOptions(USAGE, {});
      return printResult({ exitCode: 0, stdout: USAGE, stderr: '' });
    case '--version':
      parseOptions(VERSION_USAGE, {});
      return printResult({ exitCode: 0, stdout: `${VERSION}\n`, stderr: '' });
    default:
      return runOperatorCommandByName(command);
  }
}

function parseOptions<Options extends OptionParsers>(usage: string, options: Options) {
  return parseOrExplain(usage, args, () => parseArguments(args, options, []).options);
}

async function serve(): Promise<void> {
  // Node's own handler would print all properties of the error, which may contain secret database values.
  process.on('uncaughtException', exitWithError);
  const starting = startService(readConfig());
  // Registered before the start completes, because a supervisor may stop the service as soon as it listens.
  onStopSignal(async () => (await starting).stop());
  await starting;
  freeStartMemory();
  // The old generation may grow by half between two garbage collections, instead of up to four times.
  setFlagsFromString('--heap-growing-percent=50');
}

/** Frees about 30 MB that the start took and V8 would keep (docs/performance.md, "Memory"). */
function freeStartMemory(): void {
  setFlagsFromString('--expose-gc');
  // Only contexts that are created after the flag was set have `gc`.
  const gc = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  gc({ type: 'major', flavor: 'last-resort' });
}

async function runOperatorCommandByName(command: string): Promise<void> {
  if (!COMMAND_WORDS.has(command)) {
    const stderr = `Unknown command: ${command}\n\n${USAGE}`;
    return printResult({ exitCode: 2, stdout: '', stderr });
  }
  const run = parseCommand([command, ...args]);
  const config = readCommandConfig();
  printResult(await runOperatorCommand(config, run, new ProcessIo(process)));
}

async function runCommand<Context>(
  { usage, parse }: Command<Context>,
  readContext: () => Context,
): Promise<void> {
  const run = parseOrExplain(usage, args, () => parse(args));
  printResult(await run(readContext(), new ProcessIo(process)));
}

async function demo({ keep, port }: { keep: boolean; port: number | null }): Promise<void> {
  const { runDemo } = await import('../demo/demo.ts');
  const stop = new AbortController();
  const options = { shouldKeepRunning: keep, port: port ?? 0, stopSignal: stop.signal };
  const demoFinished = runDemo(options);
  onStopSignal(() => {
    stop.abort();
    return demoFinished;
  });
  await demoFinished;
}

function printResult({ stdout, stderr, exitCode }: CommandResult): void {
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  process.exitCode = exitCode;
}

/** Calls `stop` on the first SIGTERM or SIGINT. Exits when it has finished, after 15 s, or on the second signal. */
function onStopSignal(stop: () => Promise<void>): void {
  let isStopping = false;
  const onSignal = () => {
    if (!isStopping) {
      isStopping = true;
      // The longest STOP_DELAY_SECONDS and the deadlines of all stages together (ADR 21).
      setTimeout(() => {
        process.stderr.write('The shutdown took more than 15 s: exiting immediately.\n');
        process.exit(1);
      }, 15_000).unref();
      stop().then(() => process.exit(0), exitWithError);
    } else if (!isRunByNpm()) {
      // After Ctrl-C, npm forwards the signal that the terminal has also sent to this process.
      process.exit(1);
    }
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** The database rolls back what the command has not committed. */
function exitWithOutputError({ code, message }: NodeJS.ErrnoException): void {
  const problem = code === 'EPIPE' ? 'was closed' : `could not be written (${message})`;
  exitWithError(new OperatorError(`Standard output ${problem} before the command finished.`));
}

function exitWithError(error: unknown): void {
  if (error instanceof UsageError) {
    printResult(error.result);
    return;
  }
  if (error instanceof OperatorError) {
    process.stderr.write(`${error.message}\n`);
  } else if (error instanceof DatabaseUnavailableError) {
    process.stderr.write(`The database is unavailable: ${rootCauseMessage(error)}.\n`);
  } else {
    process.stderr.write(formatErrorForTerminal(error));
  }
  process.exit(1);
}
