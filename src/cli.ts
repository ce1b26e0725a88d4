import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ConfigError, isRunByNpm, readCommandConfig, readConfig } from './config.ts';
import { openDatabase } from './database/database.ts';
import { DatabaseUnavailableError, OperatorError, rootCauseMessage } from './errors.ts';
import { formatErrorForTerminal } from './log.ts';
import { backupCommand } from './operator/backup/backup.ts';
import { restoreCommand } from './operator/backup/restore.ts';
import {
  type CommandResult,
  type ConfigCommand,
  ProcessIo,
  parseArguments,
  renderReport,
} from './operator/command.ts';
import { COMMANDS_USAGE, parseCommand, runOperatorCommand } from './operator/commands.ts';
import { configCommand } from './operator/config-command.ts';
import { DOCTOR_USAGE, renderFindings, runDoctor } from './operator/doctor/doctor.ts';
import { startService } from './service.ts';
import { VERSION } from './version.ts';

const SERVE_USAGE =
  '  serve    runs the service with the settings of the environment (see .env.example)\n';
const MIGRATE_USAGE = '  migrate  applies missing database migrations and exits\n';
const DEMO_USAGE = `  demo     demonstrates a payment with a test mint, step by step; --keep keeps it running,
           --port <number> sets the port of the service; the payment server uses the next port
`;
const USAGE = `Usage: nutpost <command>

${SERVE_USAGE}${MIGRATE_USAGE}${DOCTOR_USAGE}${configCommand.usage}${COMMANDS_USAGE}${backupCommand.usage}${restoreCommand.usage}${DEMO_USAGE}  --version
           prints the version
`;

const [commandName = 'serve', ...args] = process.argv.slice(2);
await dispatch(commandName).catch(exitWithError);

async function dispatch(command: string): Promise<void> {
  switch (command) {
    case 'serve':
      return serve();
    case 'migrate':
      return migrate();
    case 'doctor':
      return doctor();
    case 'config':
      return runConfigCommand(configCommand);
    case 'backup':
      return runConfigCommand(backupCommand);
    case 'restore':
      return runConfigCommand(restoreCommand);
    case 'demo':
      return demo();
    case 'help':
    case '--help':
    case '-h':
      return printResult({ exitCode: 0, stdout: USAGE, stderr: '' });
    case '--version':
      return printResult({ exitCode: 0, stdout: `${VERSION}\n`, stderr: '' });
    default:
      return runOperatorCommandByName(command);
  }
}

async function serve(): Promise<void> {
  if (parseOptionsOrPrintUsage(SERVE_USAGE, {}) === null) {
    return;
  }
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

async function migrate(): Promise<void> {
  if (parseOptionsOrPrintUsage(MIGRATE_USAGE, {}) === null) {
    return;
  }
  const terminal = new ProcessIo(process);
  const onProgress = (line: string) => terminal.reportProgress(line);
  const database = await openDatabase(readCommandConfig().database, () => undefined, onProgress);
  await database.close();
  process.stdout.write('The database is up to date.\n');
}

async function runOperatorCommandByName(command: string): Promise<void> {
  const parsed = parseCommand([command, ...args]);
  if (parsed === null) {
    printResult({ exitCode: 2, stdout: '', stderr: `Unknown command: ${command}\n\n${USAGE}` });
  } else if (parsed.outcome === 'usage') {
    printResult(parsed.usage);
  } else {
    const io = new ProcessIo(process);
    printResult(await runOperatorCommand(readCommandConfig(), parsed.value, io));
  }
}

async function doctor(): Promise<void> {
  const options = parseOptionsOrPrintUsage(DOCTOR_USAGE, {
    json: { type: 'boolean', default: false },
  });
  if (options === null) {
    return;
  }
  const terminal = new ProcessIo(process);
  const findings = await runDoctor((line) => terminal.reportProgress(line));
  printResult(renderFindings(findings, options, Date.now()));
}

async function runConfigCommand({ usage, parse }: ConfigCommand): Promise<void> {
  const parsed = parseArguments(usage, args, () => parse(args));
  if (parsed.outcome === 'usage') {
    printResult(parsed.usage);
    return;
  }
  const { run, isJson } = parsed.value;
  printResult(renderReport(await run(readCommandConfig(), new ProcessIo(process)), isJson));
}

async function demo(): Promise<void> {
  const options = parseOptionsOrPrintUsage(DEMO_USAGE, {
    keep: { type: 'boolean', default: false },
    port: { type: 'string', default: '0' },
  });
  if (options === null) {
    return;
  }
  const { runDemo } = await import('../demo/demo.ts');
  const { keep: shouldKeepRunning, port } = options;
  const stop = new AbortController();
  const demoFinished = runDemo({ shouldKeepRunning, port, stopSignal: stop.signal });
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

/** Parses the arguments of this process. Prints the usage and returns null for `--help` and for wrong arguments. */
function parseOptionsOrPrintUsage<T extends ParseArgsOptionsConfig>(usage: string, options: T) {
  const parsed = parseArguments(usage, args, () => parseArgs({ args, options }).values);
  if (parsed.outcome === 'usage') {
    printResult(parsed.usage);
    return null;
  }
  return parsed.value;
}

/** Calls `stop` on the first SIGTERM or SIGINT. Exits when it has finished, after 15 s, or on the second signal. */
function onStopSignal(stop: () => Promise<void>): void {
  let stoppingSinceMs: number | null = null;
  const onSignal = () => {
    if (stoppingSinceMs === null) {
      stoppingSinceMs = performance.now();
      // The longest STOP_DELAY_SECONDS and the deadlines of all stages together (ADR 21).
      setTimeout(() => {
        process.stderr.write('The shutdown took more than 15 s: exiting immediately.\n');
        process.exit(1);
      }, 15_000).unref();
      stop().then(() => process.exit(0), exitWithError);
      return;
    }
    // After Ctrl-C, npm forwards the signal that the terminal has also sent to this process.
    const isForwardedByNpm = isRunByNpm() && performance.now() - stoppingSinceMs < 300;
    if (!isForwardedByNpm) {
      process.exit(1);
    }
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

function exitWithError(error: unknown): void {
  if (error instanceof ConfigError) {
    process.stderr.write(error.problems.map((problem) => `${problem}\n`).join(''));
  } else if (error instanceof OperatorError) {
    process.stderr.write(`${error.message}\n`);
  } else if (error instanceof DatabaseUnavailableError) {
    process.stderr.write(`The database is unavailable: ${rootCauseMessage(error)}.\n`);
  } else if (isListenError(error)) {
    process.stderr.write(`HOST, PORT: ${error.message}\n`);
  } else {
    process.stderr.write(formatErrorForTerminal(error));
  }
  process.exit(1);
}

function isListenError(error: unknown): error is Error {
  return (
    error instanceof Error &&
    'syscall' in error &&
    (error.syscall === 'listen' || error.syscall === 'getaddrinfo')
  );
}
