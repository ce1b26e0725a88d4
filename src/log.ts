import { writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { pino } from 'pino';
import { withoutControls } from './domain/foreign-text.ts';
import { MAX_TEXT_CHARS, redact } from './domain/redaction.ts';

/** The log of the whole service. ERROR means that somebody must act; what is expected is lower. */
export type Log = pino.Logger;

/** What is told of an error. */
interface DescribedError {
  /** Its name, where it has one. */
  type?: string;
  message: string;
  code?: string | number;
  stack?: string;
  /** Of an `AggregateError`, such as of a connection that each address of a host refused. */
  errors?: DescribedError[];
  cause?: DescribedError;
}

/** Of one error with all that is in it: enough for the causes, too few to flood a log. */
const MAX_DESCRIBED_ERRORS = 10;

/** Stands for all that are more. */
const LEFT_OUT: DescribedError = { message: 'further errors are left out' };

/** How lines look: JSON for programs, or text for people; `auto` takes text at a terminal. */
type LogFormat = 'auto' | 'json' | 'pretty';

/** The file of standard output. */
const STANDARD_OUTPUT = 1;

/** Between two attempts at a pipe that is full, in milliseconds; nobody wakes it before. */
const FULL_PIPE_MS = 1;
const NEVER_WOKEN = new Int32Array(new SharedArrayBuffer(4));

/** What a pipe takes whole: between the lines of such a piece comes nothing that another process writes to it. */
const PIPE_BUF = 4_096;

/** When it was, of today; a log that is kept is one of JSON, which has the day too. */
const TIME_OF_DAY = 'HH:MM:ss.l';

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
    hooks: { streamWrite: cleanLine },
  };
  return pino(options, destination ?? new LineOutput(STANDARD_OUTPUT));
}

/**
 * Where the lines of the service go: standard output, in a form for whoever reads it. Lines are made
 * pretty here, behind {@link redact} and before the next one is written, not in a thread of their own.
 */
export async function logOutput(format: LogFormat): Promise<pino.DestinationStream> {
  const output = new LineOutput(STANDARD_OUTPUT);
  if (format === 'json' || (format === 'auto' && !isatty(STANDARD_OUTPUT))) {
    return output;
  }
  // Loaded only here: a service that nobody looks at starts without it.
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: `SYS:${TIME_OF_DAY}`, ignore: 'pid,hostname' });
  // Lines of JSON are for programs; at a terminal, foreign words must not move the cursor.
  const harmless = (_key: string, value: unknown) =>
    typeof value === 'string' ? withoutControls(value) : value;
  return { write: (line) => output.write(pretty(JSON.parse(line, harmless))) };
}

/**
 * Writes the lines that are logged meanwhile, all of them before it is over, several at a time: each write is a system call,
 * and a mint may tell of a thousand payments. In a form for people, each line is still written by itself.
 *
 * @param work in which nothing is waited for
 */
export function logTogether(log: Log, work: () => void): void {
  const output: unknown = Reflect.get(log, pino.symbols.streamSym);
  if (output instanceof LineOutput) {
    output.together(work);
  } else {
    work();
  }
}

/**
 * Writes lines to an open file at once: a buffered one would be lost in a crash, and hangs the end of the process where
 * nobody reads any more.
 *
 * Where the reader is late and a pipe is full, it waits for it, and hardly longer than that. pino's own way sleeps
 * for 100 ms then, and everything with it; and the pipe of standard output does not wait by itself, because Node makes it
 * so as soon as anything looks at `process.stdout`, or at `process.stderr` where both are one.
 */
export class LineOutput {
  readonly #file: number;
  /** Lines of {@link together} that are not written yet, and their bytes; null where each is written at once. */
  #waiting: { lines: string; bytes: number } | null = null;

  constructor(file: number) {
    this.#file = file;
  }

  /** What cannot be written, as where the reader has gone or a disk is full, is lost: the service goes on. */
  write(line: string): void {
    if (this.#waiting === null) {
      this.#writeAll(line);
      return;
    }
    const bytes = Buffer.byteLength(line);
    if (this.#waiting.bytes + bytes > PIPE_BUF) {
      this.#writeAll(this.#waiting.lines);
      this.#waiting = { lines: '', bytes: 0 };
    }
    this.#waiting.lines += line;
    this.#waiting.bytes += bytes;
  }

  /** Writes the lines that come meanwhile, all of them before it is over, several at a time. */
  together(work: () => void): void {
    if (this.#waiting !== null) {
      work();
      return;
    }
    this.#waiting = { lines: '', bytes: 0 };
    try {
      work();
    } finally {
      this.#writeAll(this.#waiting.lines);
      this.#waiting = null;
    }
  }

  #writeAll(lines: string): void {
    let rest: Uint8Array = Buffer.from(lines);
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(this.#file, rest));
      } catch (error) {
        if (!isFull(error)) {
          return;
        }
        Atomics.wait(NEVER_WOKEN, 0, 0, FULL_PIPE_MS);
      }
    }
  }
}

function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
}

/**
 * What a person at a terminal is told of anything that was thrown, in lines: its stack, its code, its
 * errors and its causes; without secrets, as in the log.
 */
export function errorText(error: unknown): string {
  return redact(`${linesOf(describeError(error)).join('\n')}\n`);
}

/** A line that has to be cut is told as a text, behind what every line begins with: it stays JSON. */
function cleanLine(line: string): string {
  if (line.length <= MAX_TEXT_CHARS) {
    return redact(line);
  }
  const levelAndTime = line.split(',', 2).join(',');
  const said = JSON.stringify(redact(line));
  return `${levelAndTime},"msg":"a line of the log was too long","line":${said}}\n`;
}

function linesOf({ type, message, code, stack, errors, cause }: DescribedError): string[] {
  const title = type === undefined ? message : `${type}: ${message}`;
  return [
    ...(stack ?? title).split('\n'),
    ...(code === undefined ? [] : [`code: ${code}`]),
    ...(errors ?? []).flatMap((each) => linesWithin('one of its errors', each)),
    ...(cause === undefined ? [] : linesWithin('caused by', cause)),
  ];
}

function linesWithin(role: string, inner: DescribedError): string[] {
  const [first, ...rest] = linesOf(inner);
  return [`${role}: ${first}`, ...rest.map((line) => `  ${line}`)];
}

/** Never throws, whatever was thrown: it is what handlers of errors call. */
function describeError(error: unknown): DescribedError {
  return describe(error, []);
}

/** @param told what is described already, so that a circle ends, and so does a crowd */
function describe(error: unknown, told: unknown[]): DescribedError {
  if (told.length >= MAX_DESCRIBED_ERRORS) {
    return LEFT_OUT;
  }
  if (isObject(error) && told.includes(error)) {
    return { message: 'the same error again' };
  }
  told.push(error);
  try {
    return isObject(error) ? describeObject(error, told) : { message: String(error) };
  } catch {
    return { message: 'an error that cannot be read' };
  }
}

/** Errors, and what is like them: those of another realm, or plain objects that somebody threw. */
function describeObject(error: Record<string, unknown>, told: unknown[]): DescribedError {
  const { name, message, code, stack, errors, cause } = error;
  return {
    ...(typeof name === 'string' ? { type: name } : {}),
    message: typeof message === 'string' ? message : 'an object was thrown',
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    ...(typeof stack === 'string' ? { stack } : {}),
    ...(Array.isArray(errors) ? { errors: describeAll(errors, told) } : {}),
    ...(cause === undefined ? {} : { cause: describe(cause, told) }),
  };
}

function describeAll(errors: unknown[], told: unknown[]): DescribedError[] {
  const described = errors.slice(0, MAX_DESCRIBED_ERRORS).map((each) => describe(each, told));
  const end = described.indexOf(LEFT_OUT);
  return end < 0 ? described : described.slice(0, end + 1);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
