import { pino } from 'pino';
import { redact } from './domain/redaction.ts';

/** The log of the whole service. ERROR means that somebody must act; what is expected is lower. */
export type Log = pino.Logger;

/**
 * Opens the log: JSON lines on standard output, or on `destination`.
 *
 * Every line goes through {@link redact} as it is written, whoever wrote it. An error is logged without
 * what a database adds to it: PostgreSQL's `detail` quotes the values of a row, which have no names there.
 */
export function openLog(level: string, destination?: pino.DestinationStream): Log {
  const options: pino.LoggerOptions = {
    level,
    serializers: { err: describeError },
    hooks: { streamWrite: redact },
  };
  // Synchronous: a buffered line would be lost in a crash, and hangs the end of the process where
  // nobody reads standard output any more.
  return pino(options, destination ?? pino.destination({ dest: 1, sync: true }));
}

function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) {
    return { message: String(error) };
  }
  return {
    type: error.name,
    message: error.message,
    ...('code' in error ? { code: error.code } : {}),
    stack: error.stack,
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}
