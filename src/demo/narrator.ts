import { setTimeout as delay } from 'node:timers/promises';
import { styleText } from 'node:util';
import { OperatorError } from '../domain/errors.ts';

/** Far above what any step takes, the first start of a database on a slow machine included. */
const STEP_DEADLINE_MS = 10_000;

/** Columns of a step, in characters. Together with a short result they fit a terminal. */
const NAME_WIDTH = 11;
const ASKED_WIDTH = 38;
const TIME_WIDTH = 6;

/** One thing that happens, and how it is told. */
export interface Step<T> {
  name: string;
  /** What is asked, told before it begins. */
  asks: string;
  does: () => T | Promise<T>;
  /** What came, in a few words. */
  tells: (came: Awaited<T>) => string;
}

/** Tells what happens as it happens, a line for each step, for a person to read. */
export class Narrator {
  readonly #output: NodeJS.WriteStream;
  readonly #interruption: AbortSignal;
  readonly #startedAt = performance.now();

  /**
   * @param output colours where it is a terminal and `NO_COLOR` is not set
   * @param interruption ends the step that is under way
   */
  constructor(output: NodeJS.WriteStream, interruption: AbortSignal) {
    this.#output = output;
    this.#interruption = interruption;
  }

  /** Time since the first word, such as `3.1 s`. */
  get elapsed(): string {
    return duration(performance.now() - this.#startedAt);
  }

  /** A heading, with an empty line above. */
  chapter(title: string): void {
    this.line(`\n${this.#style('bold', title)}`);
  }

  line(text: string): void {
    this.#output.write(`${text}\n`);
  }

  /**
   * Does a step and tells what was asked, how long it took and what came.
   *
   * @returns what came
   * @throws OperatorError naming the step that failed, took too long or was interrupted
   */
  async step<T>({ name, asks, does, tells }: Step<T>): Promise<Awaited<T>> {
    this.#output.write(
      `  ${name.padEnd(NAME_WIDTH)} ${this.#style('dim', asks.padEnd(ASKED_WIDTH))} `,
    );
    const startedAt = performance.now();
    const time = () => duration(performance.now() - startedAt).padStart(TIME_WIDTH);
    try {
      const came = await withinDeadline(does, this.#interruption);
      this.line(`${this.#style('green', '✓')} ${this.#style('dim', time())}  ${tells(came)}`);
      return came;
    } catch (error) {
      const reason = this.#interruption.aborted ? 'interrupted' : describe(error);
      this.line(`${this.#style('red', '✗')} ${this.#style('dim', time())}`);
      throw new OperatorError(`The demo failed at "${name}" (${asks}): ${reason}`, {
        cause: error,
      });
    }
  }

  #style(format: 'bold' | 'dim' | 'green' | 'red', text: string): string {
    return styleText(format, text, { stream: this.#output });
  }
}

/** Lengths that nobody reads to the end, such as keys and invoices, in two recognisable parts. */
export function shorten(text: string): string {
  return text.length <= 14 ? text : `${text.slice(0, 9)}…${text.slice(-4)}`;
}

async function withinDeadline<T>(
  work: () => T | Promise<T>,
  interruption: AbortSignal,
): Promise<Awaited<T>> {
  const isOver = new AbortController();
  const signal = AbortSignal.any([interruption, isOver.signal]);
  const deadline = delay(STEP_DEADLINE_MS, undefined, { signal }).then(() => {
    throw new Error(`nothing came within ${STEP_DEADLINE_MS / 1000} s`);
  });
  try {
    return await Promise.race([work(), deadline]);
  } finally {
    isOver.abort();
  }
}

function duration(ms: number): string {
  if (ms < 1) {
    return '<1 ms';
  }
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** An error and what caused it: a failed fetch says only there what went wrong. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  return error.cause === undefined ? error.message : `${error.message}: ${describe(error.cause)}`;
}
