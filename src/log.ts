import { isatty } from 'node:tty';
import { pino } from 'pino';
import { REDACTED, redact, SECRET_FIELDS } from './redaction.ts';
import { stripControlCharacters } from './untrusted-text.ts';

/** Level `error` means that a person must act. */
export type Logger = pino.Logger;

const STDOUT_FD = 1;

/** Buffer for a slow reader; further lines are dropped. */
const MAX_BUFFERED_LOG_BYTES = 16 * 1024 * 1024;

/** How long the process waits at exit for a reader that does not read. */
const EXIT_FLUSH_MS = 1_000;

/** Top-level fields only, because wildcards cost ten times as much as the rest of a line. */
const REDACTED_PATHS = SECRET_FIELDS.map((field) => `["${field}"]`);

/** Creates a logger that writes JSON lines. Pino redacts secret fields, {@link redact} secrets in text. */
export function createLogger(
  level: string,
  destination: pino.DestinationStream = openStdoutDestination(),
): Logger {
  return pino(
    {
      level,
      serializers: { err: toLoggedError },
      redact: { paths: REDACTED_PATHS, censor: REDACTED },
      hooks: { streamWrite: redact },
    },
    destination,
  );
}

/** Opens standard output as a log destination. `auto`: text if it is a terminal, otherwise JSON. */
export async function createLogDestination(
  format: 'auto' | 'json' | 'pretty',
): Promise<pino.DestinationStream> {
  const output = openStdoutDestination();
  if (format === 'json' || (format === 'auto' && !isatty(STDOUT_FD))) {
    return output;
  }
  // Imported only when needed, because it slows down the start.
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' });
  // Untrusted text must not control the terminal.
  const stripControls = (_key: string, value: unknown) =>
    typeof value === 'string' ? stripControlCharacters(value) : value;
  return { write: (line) => output.write(pretty(JSON.parse(line, stripControls))) };
}

let stdoutDestination: ReturnType<typeof pino.destination> | null = null;

/** Opens standard output in non-blocking mode, so that a slow or missing reader never blocks the service. */
function openStdoutDestination(): pino.DestinationStream {
  if (stdoutDestination !== null) {
    return stdoutDestination;
  }
  let flushUntilMs = Number.POSITIVE_INFINITY;
  let isFailing = false;
  const output = pino.destination({
    // Accessing `process.stdout` makes a pipe non-blocking; otherwise a write could block a thread forever.
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

/** The logged properties of an error. Others may be secret: PostgreSQL's `detail` contains values of the row. */
interface LoggedError {
  type?: string | undefined;
  message: string;
  code?: string | number | undefined;
  stack?: string | undefined;
  /** The errors of an `AggregateError`, such as failed connection attempts. */
  errors?: LoggedError[] | undefined;
  cause?: LoggedError | undefined;
}

/** Also ends cycles of causes. */
const MAX_CAUSE_DEPTH = 3;

const MAX_AGGREGATED_ERRORS = 5;

function toLoggedError(error: unknown, depth = 0): LoggedError {
  if (typeof error !== 'object' || error === null) {
    return { message: String(error) };
  }
  const { name, message, code, stack, errors, cause } = error as Record<string, unknown>;
  const hasNested = depth < MAX_CAUSE_DEPTH;
  const toNested = (nested: unknown) => toLoggedError(nested, depth + 1);
  return {
    type: toText(name),
    message: toText(message) ?? 'an object was thrown',
    code: typeof code === 'number' ? code : toText(code),
    stack: toText(stack),
    errors:
      hasNested && Array.isArray(errors)
        ? errors.slice(0, MAX_AGGREGATED_ERRORS).map(toNested)
        : undefined,
    cause: hasNested && cause !== undefined ? toNested(cause) : undefined,
  };
}

function toText(value: unknown): string | undefined {
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

/** The log message of each milestone of a payment, in the usual order. */
const MILESTONE_MESSAGES = {
  invoice_created: 'invoice created',
  paid: 'payment recorded; it is in the recipient’s list',
  update_sent: 'update sent to sockets of the recipient',
  issued: 'payment collected by the recipient’s wallet',
  expired: 'invoice expired unpaid; no longer watched',
  receipt_signed: 'zap receipt signed',
  receipt_delivered: 'relay accepted the zap receipt',
} as const;

export type Milestone = keyof typeof MILESTONE_MESSAGES;

/**
 * Logs a milestone after its commit. All lines of a payment carry its payment hash, which is not
 * secret and which `nutpost trace` accepts.
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
