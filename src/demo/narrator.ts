import { setTimeout as delay } from 'node:timers/promises';
import { styleText } from 'node:util';
import { OperatorError } from '../domain/errors.ts';

/** Columns of a step, in characters. Together with a short result they fit 80. */
const NAME_WIDTH = 10;
const ASKED_WIDTH = 34;
const TIME_WIDTH = 6;

/** One thing that happens, and how it is told. */
export interface Step<T> {
  name: string;
  /** What is asked, told before it begins. */
  asks: string;
  does: () => T | Promise<T>;
  /** What came, in a few words. */
  tells: (came: Awaited<T>) => string;
  /** Where it may take longer than others. */
  deadlineMs?: number;
}

/** How a story is told. */
export interface NarratorOptions {
  /** Gets colours where it is a terminal and `NO_COLOR` is not set. */
  output: NodeJS.WritableStream;
  /** A step that takes longer has failed, where it names no deadline of its own. */
  stepDeadlineMs: number;
  /** Breaks off the step that is under way. */
  interruption: AbortSignal;
}

/** Tells what happens as it happens, a line for each step, for a person to read. */
export class Narrator {
  readonly #options: NarratorOptions;
  readonly #startedAt = performance.now();

  constructor(options: NarratorOptions) {
    this.#options = options;
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
    this.#options.output.write(`${text}\n`);
  }

  /**
   * Does a step and tells what was asked, how long it took and what came.
   *
   * @returns what came
   * @throws OperatorError naming the step that failed, took too long or was interrupted
   */
  async step<T>({ name, asks, does, tells, deadlineMs }: Step<T>): Promise<Awaited<T>> {
    this.#options.output.write(
      `  ${name.padEnd(NAME_WIDTH)} ${this.#style('dim', asks.padEnd(ASKED_WIDTH))} `,
    );
    const startedAt = performance.now();
    const time = () => duration(performance.now() - startedAt).padStart(TIME_WIDTH);
    try {
      const { stepDeadlineMs, interruption } = this.#options;
      const came = await withinDeadline(does, deadlineMs ?? stepDeadlineMs, interruption);
      this.line(`${this.#style('green', '✓')} ${this.#style('dim', time())}  ${tells(came)}`);
      return came;
    } catch (error) {
      this.line(`${this.#style('red', '✗')} ${this.#style('dim', time())}`);
      const [verb, reason] = this.#options.interruption.aborted
        ? ['was interrupted', '']
        : ['failed', `: ${describe(error)}`];
      throw new OperatorError(`The demo ${verb} at "${name}" (${asks})${reason}`, {
        cause: error,
      });
    }
  }

  #style(format: 'bold' | 'dim' | 'green' | 'red', text: string): string {
    return styleText(format, text, { stream: this.#options.output });
  }
}

/** Lengths that nobody reads to the end, such as keys and invoices, in two recognisable parts. */
export function shorten(text: string): string {
  return text.length <= 14 ? text : `${text.slice(0, 9)}…${text.slice(-4)}`;
}

async function withinDeadline<T>(
  work: () => T | Promise<T>,
  deadlineMs: number,
  interruption: AbortSignal,
): Promise<Awaited<T>> {
  const isOver = new AbortController();
  const signal = AbortSignal.any([interruption, isOver.signal]);
  const deadline = delay(deadlineMs, undefined, { signal }).then(() => {
    throw new Error(`nothing came within ${duration(deadlineMs)}`);
  });
  try {
    return await Promise.race([Promise.try(work), deadline]);
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
