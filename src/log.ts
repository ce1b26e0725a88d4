import { fstatSync } from 'node:fs';
import { isatty } from 'node:tty';
import { pino } from 'pino';
import { REDACTED, redact, SECRET_FIELDS } from './redaction.ts';
import { stripControlCharacters } from './untrusted-text.ts';

export type Logger = pino.Logger;

const STDOUT_FD = 1;

/** Lines begin with their level. Pino redacts secret fields, and {@link redact} secrets in text. */
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

/** By level: the priorities of sd-daemon(3). */
const JOURNAL_PRIORITIES = new Map([
  ['fatal', 2],
  ['error', 3],
  ['warn', 4],
  ['info', 6],
]);

/** @param journalStream the device and inode of the connection to systemd's journal, which strips the `<6>` of lines */
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
      const priority = JOURNAL_PRIORITIES.get(level) ?? 7;
      // Puts the priority before each line, also of a stack trace.
      output.write(toText(line).replaceAll(/^|\n(?!$)/g, `$&<${priority}>`));
    },
  };
}

async function loadPrettyFormatter(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' });
  // Untrusted text must not control the terminal.
  const sanitise = (_key: string, value: unknown) =>
    typeof value === 'string' ? stripControlCharacters(value) : value;
  return (line) => pretty(JSON.parse(line, sanitise));
}

/** Opens standard output in non-blocking mode, so that a slow or missing reader never blocks the service. */
function openStdoutDestination(): pino.DestinationStream {
  // While the service runs, a write that would block is retried forever. At exit, only for a second.
  let flushUntilMs = Number.POSITIVE_INFINITY;
  let isFailing = false;
  const output = pino.destination({
    // Accessing `process.stdout` makes a pipe non-blocking. Otherwise a write could block a thread forever.
    dest: process.stdout.fd ?? STDOUT_FD,
    sync: false,
    // If the reader is so far behind, new lines are dropped.
    maxLength: 16 * 1024 * 1024,
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
    flushUntilMs = performance.now() + 1_000;
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

/** Other properties of errors may be secret: PostgreSQL's `detail` contains column values. */
function toLoggedError(error: unknown, depth = 0): LoggedError {
  if (!(error instanceof Error)) {
    return { message: typeof error === 'object' ? 'an object was thrown' : String(error) };
  }
  const { name: type, message, code, stack, errors, cause }: LoggableError = error;
  // Causes may form a cycle.
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

type LoggableError = Error & { code?: unknown; errors?: unknown };

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
} as const;

export type Milestone = keyof typeof MILESTONE_MESSAGES;

/**
 * Call it after the commit. `nutpost trace` accepts the payment hash, which is not secret.
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
