import { fstatSync } from 'node:fs';
import { isatty } from 'node:tty';
import { pino } from 'pino';
import { REDACTED, redact, SECRET_FIELDS } from './redaction.ts';
import { stripControlCharacters } from './untrusted-text.ts';

export type Logger = pino.Logger;

const STDOUT_FD = 1;

/** Creates a logger of JSON lines that begin with their level. It redacts secret fields, and secrets in text. */
export function createLogger(level: string, destination?: pino.DestinationStream): Logger {
  return pino(
    {
      level,
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: toLoggedError },
      // Top-level fields only, because paths with wildcards make logging ten times as slow.
      redact: { paths: SECRET_FIELDS.map((field) => `["${field}"]`), censor: REDACTED },
      hooks: { streamWrite: redact },
    },
    destination,
  );
}

/**
 * Creates a destination that writes to standard output. If that is the stream (`device:inode`) that leads to systemd's
 * journal, each line begins with a priority such as `<6>`, which the journal removes.
 */
export async function createLogDestination(
  format: 'auto' | 'json' | 'pretty',
  journalStream: string | null,
): Promise<pino.DestinationStream> {
  const output = openStdoutDestination();
  const isJson = format === 'json' || (format === 'auto' && !isatty(STDOUT_FD));
  const formatLine = isJson ? (json: string) => json : await loadPrettyFormatter();
  const { dev, ino } = fstatSync(STDOUT_FD);
  if (journalStream !== `${dev}:${ino}`) {
    return isJson ? output : { write: (json) => output.write(formatLine(json)) };
  }
  return {
    write: (json) => {
      const level = /^\{"level":"(\w+)"/.exec(json)?.[1] ?? '';
      const priority = JOURNAL_PRIORITIES.get(level) ?? 7;
      // The pretty format of an error has several lines.
      const lines = formatLine(json).trimEnd().split('\n');
      output.write(lines.map((line) => `<${priority}>${line}\n`).join(''));
    },
  };
}

/** The priorities of sd-daemon(3). All other levels have 7. */
const JOURNAL_PRIORITIES = new Map(Object.entries({ fatal: 2, error: 3, warn: 4, info: 6 }));

async function loadPrettyFormatter(): Promise<(json: string) => string> {
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' });
  // Untrusted text must not control the terminal.
  const sanitise = (_key: string, value: unknown) =>
    typeof value === 'string' ? stripControlCharacters(value) : value;
  return (json) => pretty(JSON.parse(json, sanitise));
}

/** Opens standard output in non-blocking mode, so that a slow or missing reader never blocks the service. */
function openStdoutDestination(): pino.DestinationStream {
  // A write that would block is retried: forever while the service runs, but only for a second at exit.
  let retryUntilMs = Number.POSITIVE_INFINITY;
  let hasLastWriteFailed = false;
  const output = pino.destination({
    // Accessing `process.stdout` makes a pipe non-blocking. A write to a blocking pipe could block a thread forever.
    dest: process.stdout.fd ?? STDOUT_FD,
    sync: false,
    // Bytes. While more are waiting for the reader, new lines are dropped.
    maxLength: 16 * 1024 * 1024,
    retryEAGAIN: () => performance.now() < retryUntilMs,
  });
  // If the disk is full, lines are lost and the service continues.
  output.on('error', () => {
    hasLastWriteFailed = true;
  });
  output.on('write', () => {
    hasLastWriteFailed = false;
  });
  // Runs before pino's own flush, which would wait forever for the reader or for disk space.
  process.prependOnceListener('exit', () => {
    if (hasLastWriteFailed) {
      output.destroy();
      return;
    }
    retryUntilMs = performance.now() + 1_000;
    try {
      output.flushSync();
    } catch {
      output.destroy();
    }
  });
  return output;
}

interface LoggedError {
  type?: string;
  message: string;
  code?: string | number | undefined;
  stack?: string | undefined;
  errors?: LoggedError[] | undefined;
  cause?: LoggedError | undefined;
}

/** Copies only properties that are not secret. For example, PostgreSQL's `detail` contains column values. */
function toLoggedError(error: unknown, depth = 0): LoggedError {
  if (!(error instanceof Error)) {
    return { message: typeof error === 'object' ? 'an object was thrown' : String(error) };
  }
  const { name: type, message, stack, cause } = error;
  const { code, errors } = error as { code?: unknown; errors?: unknown };
  // Limited, because causes may form a cycle.
  const includesNested = depth < 3;
  const toNested = (nested: unknown) => toLoggedError(nested, depth + 1);
  return {
    type,
    message,
    code: typeof code === 'string' || typeof code === 'number' ? code : undefined,
    stack,
    errors: includesNested && Array.isArray(errors) ? errors.slice(0, 5).map(toNested) : undefined,
    cause: includesNested && cause !== undefined ? toNested(cause) : undefined,
  };
}

export function formatErrorForTerminal(error: unknown): string {
  return redact(`${formatErrorLines(toLoggedError(error)).join('\n')}\n`);
}

function formatErrorLines({ message, code, stack, errors = [], cause }: LoggedError): string[] {
  return [
    stack ?? message,
    ...(code === undefined ? [] : [`code: ${code}`]),
    ...errors.flatMap(formatErrorLines),
    ...(cause === undefined ? [] : ['caused by:', ...formatErrorLines(cause)]),
  ];
}

const MILESTONE_MESSAGES = {
  invoice_created: 'invoice created',
  paid: 'payment recorded and added to the list of the recipient',
  update_sent: 'update sent to sockets of the recipient',
  issued: 'ecash of the payment was minted',
  expired: 'invoice expired unpaid; no longer watched',
  receipt_signed: 'zap receipt signed',
  receipt_refused: 'the zap gets no receipt',
  receipt_delivered: 'relay accepted the zap receipt',
  notified: 'recipient was notified',
} as const;

export type Milestone = keyof typeof MILESTONE_MESSAGES;

/**
 * Logs a step of a payment. Call it after the step was committed.
 *
 * @param paymentHash hex, which is not secret and an argument of `nutpost trace`; null if the invoice is unreadable
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
