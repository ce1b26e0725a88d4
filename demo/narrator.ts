import { addAbortListener } from 'node:events';
import { styleText } from 'node:util';
import { OperatorError } from '../src/errors.ts';

/** Columns of a step, in characters. Together with a short result they fit 80. */
const NAME_WIDTH = 10;
const REQUEST_WIDTH = 34;
const TIME_WIDTH = 6;

/** The first start of a database takes 2 s, and 20 s on a busy machine; every other step is faster. */
const STEP_TIMEOUT_MS = 180_000;

/** One step of the demo. */
export interface Step<T> {
  name: string;
  /** What is requested, shown before the step starts. */
  request: string;
  run: () => T | Promise<T>;
  /** The result in a few words. */
  describe: (result: Awaited<T>) => string;
}

/** Shows on standard output what happens, a line for each step. */
export class Narrator {
  readonly #interruption: AbortSignal;

  /** @param interruption stops the current step */
  constructor(interruption: AbortSignal) {
    this.#interruption = interruption;
  }

  /** Shows a heading, with an empty line above. */
  chapter(title: string): void {
    this.line(`\n${styleText('bold', title)}`);
  }

  line(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  /**
   * Runs a step and shows the request, its duration and the result, which is returned.
   *
   * @throws OperatorError naming the step that failed, took too long or was interrupted
   */
  async step<T>({ name, request, run, describe }: Step<T>): Promise<Awaited<T>> {
    const asked = styleText('dim', request.padEnd(REQUEST_WIDTH));
    process.stdout.write(`  ${name.padEnd(NAME_WIDTH)} ${asked} `);
    const startedAt = performance.now();
    const time = () => styleText('dim', duration(performance.now() - startedAt));
    try {
      const signal = AbortSignal.any([this.#interruption, AbortSignal.timeout(STEP_TIMEOUT_MS)]);
      const result = await Promise.race([Promise.try(run), rejectionOf(signal)]);
      this.line(`${styleText('green', '✓')} ${time()}  ${describe(result)}`);
      return result;
    } catch (error) {
      this.line(`${styleText('red', '✗')} ${time()}`);
      const outcome = this.#interruption.aborted
        ? `was interrupted at "${name}" (${request})`
        : `failed at "${name}" (${request}): ${reasonOf(error)}`;
      throw new OperatorError(`The demo ${outcome}`, { cause: error });
    }
  }
}

/** Shortens keys and invoices to two recognisable parts. */
export function shorten(text: string): string {
  return text.length <= 14 ? text : `${text.slice(0, 9)}…${text.slice(-4)}`;
}

function rejectionOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    addAbortListener(signal, () => reject(signal.reason));
  });
}

function duration(ms: number): string {
  const text = ms < 1000 ? `${Math.ceil(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  return text.padStart(TIME_WIDTH);
}

/** An error and its cause: only the cause of a failed fetch names the problem. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  return error.cause === undefined ? error.message : `${error.message}: ${reasonOf(error.cause)}`;
}
