import { fstatSync } from 'node:fs';
import { isatty } from 'node:tty';
import { pino } from 'pino';
import { REDACTED, redact, SECRET_FIELDS } from './redaction.ts';
import { stripControlCharacters } from './untrusted-text.ts';

/** Level `error` means that a person must act. */
export type Logger = pino.Logger;

const STDOUT_FD = 1;

/** Lines that the reader has not read yet are buffered. If the buffer is full, new lines are dropped. */
const MAX_BUFFERED_LOG_BYTES = 16 * 1024 * 1024;

/** How long the exiting process tries to write the buffered lines. */
const EXIT_FLUSH_MS = 1_000;

/** Top-level fields only, because paths with wildcards make logging ten times as slow. */
const REDACTED_PATHS = SECRET_FIELDS.map((field) => `["${field}"]`);

/** Creates a logger that writes JSON lines, each of which begins with its level. Pino redacts secret fields, and {@link redact} secrets in text. */
export function createLogger(
  level: string,
  destination: pino.DestinationStream = openStdoutDestination(),
): Logger {
  return pino(
    {
      level,
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: toLoggedError },
      redact: { paths: REDACTED_PATHS, censor: REDACTED },
      hooks: { streamWrite: redact },
    },
    destination,
  );
}

/** By level: the priorities of sd-daemon(3). */
const JOURNAL_PRIORITIES: Readonly<Record<string, number>> = {
  fatal: 2,
  error: 3,
  warn: 4,
  info: 6,
};

const DEBUG_PRIORITY = 7;

/**
 * @param format `auto`: readable text if standard output is a terminal, otherwise JSON
 * @param journalStream the variable `JOURNAL_STREAM`, the device and inode of the journal's connection. Lines to the
 *   journal begin with their priority, which the journal removes
 */
export async function createLogDestination(
  format: 'auto' | 'json' | 'pretty',
  journalStream: string | null,
): Promise<pino.DestinationStream> {
  const output = openStdoutDestination();
  const isJson = format === 'json' || (format === 'auto' && !isatty(STDOUT_FD));
  const toText = isJson ? (line: string) => line : await loadPrettyFormatter();
  const { dev, ino } = fstatSync(STDOUT_FD);
  if (journalStream !== `${dev}:${ino}`) {
    return isJson ? output : { write: (line) => output.write(toText(line)) };
  }
  return {
    write: (line) => {
      const level = /^\{"level":"(\w+)"/.exec(line)?.[1] ?? '';
      const priority = JOURNAL_PRIORITIES[level] ?? DEBUG_PRIORITY;
      // An error takes several lines in the pretty format.
      output.write(toText(line).replaceAll(/^|\n(?!$)/g, `$&<${priority}>`));
    },
  };
}

async function loadPrettyFormatter(): Promise<(line: string) => string> {
  // Imported dynamically, because the import slows down the start.
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' });
  // Untrusted text must not control the terminal.
  const sanitise = (_key: string, value: unknown) =>
    typeof value === 'string' ? stripControlCharacters(value) : value;
  return (line) => pretty(JSON.parse(line, sanitise));
}

let stdoutDestination: ReturnType<typeof pino.destination> | null = null;

/** Opens standard output once, in non-blocking mode, so that a slow or missing reader never blocks the service. */
function openStdoutDestination(): pino.DestinationStream {
  if (stdoutDestination !== null) {
    return stdoutDestination;
  }
  let flushUntilMs = Number.POSITIVE_INFINITY;
  let isFailing = false;
  const output = pino.destination({
    // Accessing `process.stdout` makes a pipe non-blocking. Otherwise a write could block a thread forever.
    dest: process.stdout.fd ?? STDOUT_FD,
    sync: false,
    maxLength: MAX_BUFFERED_LOG_BYTES,
    retryEAGAIN: () => performance.now() < flushUntilMs,
  });
  // If the disk is full, lines are lost and the service continues.
  output.on('error', () => {
    isFailing = true;
  });
  output.on('write', () => {
    isFailing = false;
  });
  // Runs before pino's own flush, which would wait forever for the reader or for disk space.
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
  stdoutDestination = output;
  return output;
}

/** The properties of an error that are logged. Others may be secret: PostgreSQL's `detail` contains column values. */
interface LoggedError {
  type?: string | undefined;
  message: string;
  code?: string | number | undefined;
  stack?: string | undefined;
  /** The errors of an `AggregateError`, such as failed connection attempts. */
  errors?: LoggedError[] | undefined;
  cause?: LoggedError | undefined;
}

/** The limit on nested causes, which may form a cycle. */
const MAX_CAUSE_DEPTH = 3;

const MAX_AGGREGATED_ERRORS = 5;

function toLoggedError(error: unknown, depth = 0): LoggedError {
  if (typeof error !== 'object' || error === null) {
    return { message: String(error) };
  }
  const { name, message, code, stack, errors, cause } = error as Record<string, unknown>;
  const includesNested = depth < MAX_CAUSE_DEPTH;
  const toNested = (nested: unknown) => toLoggedError(nested, depth + 1);
  return {
    type: textOrUndefined(name),
    message: textOrUndefined(message) ?? 'an object was thrown',
    code: typeof code === 'number' ? code : textOrUndefined(code),
    stack: textOrUndefined(stack),
    errors:
      includesNested && Array.isArray(errors)
        ? errors.slice(0, MAX_AGGREGATED_ERRORS).map(toNested)
        : undefined,
    cause: includesNested && cause !== undefined ? toNested(cause) : undefined,
  };
}

function textOrUndefined(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Formats any thrown value for a terminal, with stacks and without secrets. */
export function formatErrorForTerminal(error: unknown): string {
  return redact(`${formatErrorLines(toLoggedError(error)).join('\n')}\n`);
}

function formatErrorLines(error: LoggedError): string[] {
  const { type, message, code, stack, errors = [], cause } = error;
  return [
    stack ?? (type === undefined ? message : `${type}: ${message}`),
    ...(code === undefined ? [] : [`code: ${code}`]),
    ...errors.flatMap((each) => formatErrorLines(each)),
    ...(cause === undefined ? [] : ['caused by:', ...formatErrorLines(cause)]),
  ];
}

/** The log messages of the milestones of a payment, in their usual order. */
const MILESTONE_MESSAGES = {
  invoice_created: 'invoice created',
  paid: 'payment recorded and added to the list of the recipient',
  update_sent: 'update sent to sockets of the recipient',
  issued: 'ecash of the payment was minted',
  expired: 'invoice expired unpaid; no longer watched',
  receipt_signed: 'zap receipt signed',
  receipt_refused: 'the zap gets no receipt',
  receipt_delivered: 'relay accepted the zap receipt',
} as const;

export type Milestone = keyof typeof MILESTONE_MESSAGES;

/**
 * Logs a milestone. Call it after the commit. The payment hash, which is not secret, identifies all lines of a
 * payment, and `nutpost trace` accepts it.
 *
 * @param paymentHash hex; null if the invoice of an imported row is unreadable
 * @param detail must not contain quote ids or text from payers
 */
export function logMilestone(
  log: Logger,
  milestone: Milestone,
  paymentHash: string | null,
  detail: Record<string, string | number | boolean>,
): void {
  log.info({ event: milestone, paymentHash, ...detail }, MILESTONE_MESSAGES[milestone]);
}
