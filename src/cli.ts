import { parseArgs } from 'node:util';
import type { CommandResult } from './commands/command.ts';
import { COMMAND_NAMES, COMMANDS_USAGE, readCommand } from './commands/commands.ts';
import { DOCTOR_USAGE, readDoctor, renderFindings } from './commands/doctor.ts';
import { showProgress } from './commands/show-progress.ts';
import { ProcessTerminal } from './commands/terminal.ts';
import { ConfigError, isRunByNpm, readConfig } from './config.ts';
import { examineSetup } from './doctor.ts';
import { OperatorError } from './domain/errors.ts';
import { errorText } from './log.ts';
import { migrateDatabase, runOperatorCommand, startService } from './service.ts';

const USAGE = `Usage: nutpost <command>

  serve    runs the service, as the environment configures it (see .env.example)
  migrate  brings the database up to date and ends
${DOCTOR_USAGE}${COMMANDS_USAGE}  demo     pays and collects with a test mint, step by step; --keep leaves it running,
           --port <number> gives the service a port of your choice, and the pay desk the next
`;

/** A stop that takes longer than this is not going to end by itself. */
const STOP_DEADLINE_MS = 10_000;

/**
 * What follows the first signal sooner is the same one, on its second way through npm; nobody presses
 * Ctrl-C twice in this time.
 */
const ECHO_MS = 300;

const commands: Record<string, (options: string[]) => Promise<void>> = {
  serve,
  migrate,
  doctor,
  demo,
  ...Object.fromEntries(COMMAND_NAMES.map((each) => [each, operate.bind(null, each)])),
};

const [name = 'serve', ...commandOptions] = process.argv.slice(2);
if (name === '--help' || name === '-h' || name === 'help') {
  process.stdout.write(USAGE);
  process.exit(0);
}
const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
if (command === undefined) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  await command(commandOptions).catch(endWith);
}

async function serve(options: string[]): Promise<void> {
  refuseOptions(options);
  // Node's own words on it would quote the row that a database refused.
  process.on('uncaughtException', endWith);
  const starting = startService(readConfig());
  // Heard from the first moment on: whoever reads that it listens may tell it to stop at once.
  onStopSignal(async () => (await starting).stop());
  await starting;
}

async function migrate(options: string[]): Promise<void> {
  refuseOptions(options);
  const config = readConfig();
  const terminal = openTerminal();
  await showProgress(terminal, (tell) => migrateDatabase(config, tell));
  process.stdout.write('The database is up to date.\n');
}

/** A command that works on the database, beside a running service or without one. */
async function operate(commandName: string, args: string[]): Promise<void> {
  const command = readCommand([commandName, ...args]);
  const terminal = openTerminal();
  const result =
    'run' in command
      ? await runOperatorCommand(readConfig(), command, terminal).finally(() => terminal.end())
      : command;
  tell(result);
}

/** Not one of those: it is for when there is no database, or no right setting. */
async function doctor(args: string[]): Promise<void> {
  const asked = readDoctor(args);
  if (!('json' in asked)) {
    tell(asked);
    return;
  }
  const terminal = openTerminal();
  const findings = await showProgress(terminal, (tell) => examineSetup(tell));
  tell(renderFindings(findings, asked, Date.now()));
}

function openTerminal(): ProcessTerminal {
  return new ProcessTerminal(process, () => performance.now());
}

function tell({ stdout, stderr, exitCode }: CommandResult): void {
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  process.exitCode = exitCode;
}

async function demo(demoOptions: string[]): Promise<void> {
  const { keep, port } = readDemoOptions(demoOptions);
  // Loaded only here: the container image has neither the demo nor the development dependencies.
  const { runDemo } = await import('../demo/demo.ts').catch(explainMissingPackage);
  const end = new AbortController();
  const ended = runDemo({ keep, port, end: end.signal });
  onStopSignal(() => {
    end.abort();
    return ended;
  });
  await ended;
}

function refuseOptions(options: string[]): void {
  const [unknown] = options;
  if (unknown !== undefined) {
    throw new OperatorError(`Unknown option '${unknown}'\n\n${USAGE}`);
  }
}

function readDemoOptions(args: string[]): { keep: boolean; port: string } {
  try {
    const keep = { type: 'boolean', default: false } as const;
    const port = { type: 'string', default: '0' } as const;
    return parseArgs({ args, options: { keep, port } }).values;
  } catch (error) {
    throw new OperatorError(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

function explainMissingPackage(error: unknown): never {
  if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND') {
    const need = 'The demo needs a checkout of the repository in which "npm ci" was run';
    throw new OperatorError(`${need}; the container image does not contain it: ${error.message}`);
  }
  throw error;
}

/** Stops in order at the first signal; at the second, or after the deadline, at once. */
function onStopSignal(stop: () => Promise<void>): void {
  let stoppingSinceMs: number | null = null;
  const onSignal = () => {
    if (stoppingSinceMs !== null) {
      const isEcho = isRunByNpm() && performance.now() - stoppingSinceMs < ECHO_MS;
      if (!isEcho) {
        process.exit(1);
      }
      return;
    }
    stoppingSinceMs = performance.now();
    setTimeout(endUnstopped, STOP_DEADLINE_MS).unref();
    stop().then(() => process.exit(0), endWith);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** Without a word it would look like a second signal, or a crash. */
function endUnstopped(): never {
  const seconds = STOP_DEADLINE_MS / 1000;
  process.stderr.write(`The stop was not over after ${seconds} s: it ends at once.\n`);
  process.exit(1);
}

/** What the person at the terminal can mend is told in plain lines; anything else at length. */
function endWith(error: unknown): void {
  if (error instanceof ConfigError) {
    process.stderr.write(error.problems.map((problem) => `${problem}\n`).join(''));
  } else if (error instanceof OperatorError) {
    process.stderr.write(`${error.message}\n`);
  } else if (isListenError(error)) {
    process.stderr.write(`HOST, PORT: ${error.message}\n`);
  } else {
    process.stderr.write(errorText(error));
  }
  process.exit(1);
}

/** The address of `HOST` and `PORT` cannot be had, or is none. */
function isListenError(error: unknown): error is Error {
  const isOfListening = (syscall: unknown) => syscall === 'listen' || syscall === 'getaddrinfo';
  return error instanceof Error && 'syscall' in error && isOfListening(error.syscall);
}
