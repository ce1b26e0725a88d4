import { isatty } from 'node:tty';
import { pino } from 'pino';
import { REDACTED, redact, SECRET_FIELDS } from './redaction.ts';
import { withoutControls } from './untrusted-text.ts';

/** The log of the whole service. ERROR means that a person must act. */
export type Log = pino.Logger;

/** How lines look: JSON for programs, text for people; `auto` selects text if standard output is a terminal. */
type LogFormat = 'auto' | 'json' | 'pretty';

const STANDARD_OUTPUT = 1;

/** Lines that may wait for a slow reader, in bytes. Further lines are dropped. */
const MAX_BACKLOG_BYTES = 16 * 1024 * 1024;

/** How long the end of the process waits for a reader that does not read. */
const EXIT_FLUSH_MS = 1_000;

/** Fields of a line only: wildcards cost ten times as much as the rest of a line. */
const REDACTED_PATHS = SECRET_FIELDS.map((field) => `["${field}"]`);

/**
 * Opens the log: JSON lines on standard output, or on `destination`. Fields with secret names are redacted by pino,
 * secrets in text by {@link redact}.
 */
export function openLog(
  level: string,
  destination: pino.DestinationStream = openStandardOutput(),
): Log {
  const options: pino.LoggerOptions = {
    level,
    serializers: { err: describeError },
    redact: { paths: REDACTED_PATHS, censor: REDACTED },
    hooks: { streamWrite: redact },
  };
  return pino(options, destination);
}

export async function logOutput(format: LogFormat): Promise<pino.DestinationStream> {
  const output = openStandardOutput();
  if (format === 'json' || (format === 'auto' && !isatty(STANDARD_OUTPUT))) {
    return output;
  }
  // A service without a terminal starts without it.
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' });
  // Text from strangers must not move the cursor of a terminal.
  const printable = (_key: string, value: unknown) =>
    typeof value === 'string' ? withoutControls(value) : value;
  return { write: (line) => output.write(pretty(JSON.parse(line, printable))) };
}

let standardOutput: ReturnType<typeof pino.destination> | null = null;

/** Opens standard output without blocking: a reader that is slow or gone never holds up the service. */
function openStandardOutput(): pino.DestinationStream {
  if (standardOutput !== null) {
    return standardOutput;
  }
  let flushUntilMs = Number.POSITIVE_INFINITY;
  let isFailing = false;
  const output = pino.destination({
    // Reading `process.stdout` makes a pipe non-blocking; otherwise a write could block a thread for ever.
    dest: process.stdout.fd ?? STANDARD_OUTPUT,
    sync: false,
    maxLength: MAX_BACKLOG_BYTES,
    retryEAGAIN: () => performance.now() < flushUntilMs,
  });
  // Lines are lost if the disk is full; the service continues.
  output.on('error', () => {
    isFailing = true;
  });
  output.on('write', () => {
    isFailing = false;
  });
  // Runs before pino's own flush at exit, which would wait for the reader, or for room on the disk, for ever.
  process.prependOnceListener('exit', () => {
    if (isFailing) {
      output.destroy();
      return;
    }
    flushUntilMs = performance.now() + EXIT_FLUSH_MS;
    try {
      output.flushSync();
    } catch {
      output.destroy();
    }
  });
  standardOutput = output;
  return output;
}

/** What the log says about an error: no other property, because PostgreSQL's `detail` quotes values of the row. */
interface DescribedError {
  type?: string;
  message: string;
  code?: string | number;
  stack?: string;
  /** Of an `AggregateError`, such as one connection attempt per address of a host. */
  errors?: DescribedError[];
  cause?: DescribedError;
}

/** Causes of causes that are described. A cycle ends there, too. */
const MAX_DEPTH = 3;

/** Errors of one `AggregateError` that are described. */
const MAX_ERRORS = 5;

function describeError(error: unknown, depth = 0): DescribedError {
  if (typeof error !== 'object' || error === null) {
    return { message: String(error) };
  }
  const { name, message, code, stack, errors, cause } = error as Record<string, unknown>;
  const isDeepest = depth === MAX_DEPTH;
  return {
    ...(typeof name === 'string' && { type: name }),
    message: typeof message === 'string' ? message : 'an object was thrown',
    ...((typeof code === 'string' || typeof code === 'number') && { code }),
    ...(typeof stack === 'string' && { stack }),
    ...(Array.isArray(errors) &&
      !isDeepest && {
        errors: errors.slice(0, MAX_ERRORS).map((each) => describeError(each, depth + 1)),
      }),
    ...(cause !== undefined && !isDeepest && { cause: describeError(cause, depth + 1) }),
  };
}

/** Describes anything that was thrown to a person at a terminal, without secrets. */
export function errorText(error: unknown): string {
  return redact(`${linesOf(describeError(error)).join('\n')}\n`);
}

function linesOf({ type, message, code, stack, errors = [], cause }: DescribedError): string[] {
  return [
    stack ?? (type === undefined ? message : `${type}: ${message}`),
    ...(code === undefined ? [] : [`code: ${code}`]),
    ...errors.flatMap((each) => linesOf(each)),
    ...(cause === undefined ? [] : ['caused by:', ...linesOf(cause)]),
  ];
}
