import { addAbortListener } from 'node:events';
import { styleText } from 'node:util';
import { OperatorError } from '../src/errors.ts';

/** Column widths in characters. With a short result, a line fits 80 columns. */
const NAME_WIDTH = 10;
const REQUEST_WIDTH = 34;
const TIME_WIDTH = 6;

/** Far above the slowest step: creating the database takes 2 s, or 20 s on a busy machine. */
const STEP_TIMEOUT_MS = 180_000;

export interface Step<T> {
  name: string;
  /** What the step does, shown before it starts. */
  request: string;
  run: () => T | Promise<T>;
  /** Returns a few words to print. */
  describeResult: (result: Awaited<T>) => string;
}

/** Runs the steps of the demo, and prints one line for each step to standard output. */
export class StepRunner {
  readonly #stopSignal: AbortSignal;

  /** @param stopSignal interrupts the current step */
  constructor(stopSignal: AbortSignal) {
    this.#stopSignal = stopSignal;
  }

  printHeading(title: string): void {
    this.printLine(`\n${styleText('bold', title)}`);
  }

  printLine(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  /**
   * Runs a step, prints its request, duration and result, and returns the result.
   *
   * @throws OperatorError with the name of the step if the step failed, timed out or was interrupted
   */
  async runStep<T>({ name, request, run, describeResult }: Step<T>): Promise<Awaited<T>> {
    const styledRequest = styleText('dim', request.padEnd(REQUEST_WIDTH));
    process.stdout.write(`  ${name.padEnd(NAME_WIDTH)} ${styledRequest} `);
    const startedAtMs = performance.now();
    const formatElapsed = () => styleText('dim', formatDuration(performance.now() - startedAtMs));
    try {
      const signal = AbortSignal.any([this.#stopSignal, AbortSignal.timeout(STEP_TIMEOUT_MS)]);
      const result = await Promise.race([Promise.try(run), rejectOnAbort(signal)]);
      this.printLine(`${styleText('green', '✓')} ${formatElapsed()}  ${describeResult(result)}`);
      return result;
    } catch (error) {
      this.printLine(`${styleText('red', '✗')} ${formatElapsed()}`);
      const outcome = this.#stopSignal.aborted
        ? `was interrupted at "${name}" (${request})`
        : `failed at "${name}" (${request}): ${describeErrorChain(error)}`;
      throw new OperatorError(`The demo ${outcome}`, { cause: error });
    }
  }
}

/** Shortens a key or invoice to its beginning and end. */
export function shorten(text: string): string {
  return text.length <= 14 ? text : `${text.slice(0, 9)}…${text.slice(-4)}`;
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    addAbortListener(signal, () => reject(signal.reason));
  });
}

function formatDuration(ms: number): string {
  const text = ms < 1000 ? `${Math.ceil(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  return text.padStart(TIME_WIDTH);
}

/** Describes an error and its causes, because the message of a failed fetch does not name the problem. */
function describeErrorChain(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  return error.cause === undefined
    ? error.message
    : `${error.message}: ${describeErrorChain(error.cause)}`;
}
