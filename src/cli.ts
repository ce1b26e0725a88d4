import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ConfigError, isRunByNpm, readConfig } from './config.ts';
import { DatabaseUnavailable, OperatorError, reasonOf } from './errors.ts';
import { errorText } from './log.ts';
import type { CommandResult } from './operator/command.ts';
import { COMMAND_NAMES, COMMANDS_USAGE, readCommand } from './operator/commands.ts';
import { examineSetup } from './operator/doctor/doctor.ts';
import { DOCTOR_USAGE, readDoctor, renderFindings } from './operator/doctor/doctor-command.ts';
import { runOperatorCommand } from './operator/run-command.ts';
import { ProcessTerminal } from './operator/terminal.ts';
import { migrateDatabase, startService } from './service.ts';

const USAGE = `Usage: nutpost <command>

  serve    runs the service, as the environment configures it (see .env.example)
  migrate  brings the database up to date and ends
${DOCTOR_USAGE}${COMMANDS_USAGE}  demo     pays and collects with a test mint, step by step; --keep leaves it running,
           --port <number> gives the service a port of your choice, and the pay desk the next
`;

/** A shutdown that takes longer hangs. */
const STOP_DEADLINE_MS = 10_000;

/** npm repeats a signal within this time; a person does not press Ctrl-C twice as fast. */
const ECHO_MS = 300;

const [name = 'serve', ...args] = process.argv.slice(2);
await run(name).catch(exitWith);

async function run(command: string): Promise<void> {
  switch (command) {
    case '--help':
    case '-h':
    case 'help':
      process.stdout.write(USAGE);
      process.exit(0);
      break;
    case 'serve':
      return serve();
    case 'migrate':
      return migrate();
    case 'doctor':
      return doctor();
    case 'demo':
      return demo();
    default:
      if (!COMMAND_NAMES.includes(command)) {
        process.stderr.write(USAGE);
        process.exitCode = 2;
        return;
      }
      return operate(command);
  }
}

async function serve(): Promise<void> {
  parseOptions({});
  // The default handler of Node prints values of database rows, which may be secret.
  process.on('uncaughtException', exitWith);
  const starting = startService(readConfig());
  // Before the start ends: a supervisor may stop the service as soon as it listens.
  onStopSignal(async () => (await starting).stop());
  await starting;
  collectGarbage();
}

/** Returns the 30 MB that loading the modules leaves behind; V8 alone keeps them. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  gc({ type: 'major', flavor: 'last-resort' });
}

async function migrate(): Promise<void> {
  parseOptions({});
  const config = readConfig();
  const terminal = openTerminal();
  await migrateDatabase(config, (line) => terminal.progress(line));
  process.stdout.write('The database is up to date.\n');
}

/** Runs a command that works on the database, with or without a running service. */
async function operate(command: string): Promise<void> {
  const read = readCommand([command, ...args]);
  if (!('run' in read)) {
    print(read);
    return;
  }
  print(await runOperatorCommand(readConfig(), read, openTerminal()));
}

/** Works without a database and with invalid settings. */
async function doctor(): Promise<void> {
  const options = readDoctor(args);
  if (!('json' in options)) {
    print(options);
    return;
  }
  const terminal = openTerminal();
  const findings = await examineSetup((line) => terminal.progress(line));
  print(renderFindings(findings, options, Date.now()));
}

async function demo(): Promise<void> {
  const keep = { type: 'boolean', default: false } as const;
  const port = { type: 'string', default: '0' } as const;
  const options = parseOptions({ keep, port });
  // Not imported above: the container image has neither the demo nor the development dependencies.
  const { runDemo } = await import('../demo/demo.ts').catch(explainMissingPackage);
  const end = new AbortController();
  const ended = runDemo({ ...options, end: end.signal });
  onStopSignal(() => {
    end.abort();
    return ended;
  });
  await ended;
}

function openTerminal(): ProcessTerminal {
  return new ProcessTerminal(process, () => performance.now());
}

function print({ stdout, stderr, exitCode }: CommandResult): void {
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  process.exitCode = exitCode;
}

function parseOptions<T extends NonNullable<Parameters<typeof parseArgs>[0]>['options']>(
  options: T,
) {
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new OperatorError(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

function explainMissingPackage(error: unknown): never {
  if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND') {
    throw new OperatorError(
      'The demo needs a checkout of the repository in which "npm ci" was run; the container image does' +
        ` not contain it: ${error.message}`,
    );
  }
  throw error;
}

/** Stops in order at the first signal, and at once at the second, or after the deadline. */
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
    setTimeout(() => {
      process.stderr.write(
        `The shutdown took more than ${STOP_DEADLINE_MS / 1000} s: exiting at once.\n`,
      );
      process.exit(1);
    }, STOP_DEADLINE_MS).unref();
    stop().then(() => process.exit(0), exitWith);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** Prints what an operator can fix in plain lines, and any other error with its stack. */
function exitWith(error: unknown): void {
  if (error instanceof ConfigError) {
    process.stderr.write(error.problems.map((problem) => `${problem}\n`).join(''));
  } else if (error instanceof OperatorError) {
    process.stderr.write(`${error.message}\n`);
  } else if (error instanceof DatabaseUnavailable) {
    process.stderr.write(`The database is unavailable: ${reasonOf(error)}.\n`);
  } else if (isListenError(error)) {
    process.stderr.write(`HOST, PORT: ${error.message}\n`);
  } else {
    process.stderr.write(errorText(error));
  }
  process.exit(1);
}

/** Whether the address of `HOST` and `PORT` is in use or invalid. */
function isListenError(error: unknown): error is Error {
  return (
    error instanceof Error &&
    'syscall' in error &&
    (error.syscall === 'listen' || error.syscall === 'getaddrinfo')
  );
}
