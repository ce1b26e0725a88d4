import { pino } from 'pino';
import { createLogger, type Logger } from '../../../src/log.ts';

/** Returns whether a log line has this level or a higher one. */
export function hasLevel(line: string, level: 'warn' | 'error'): boolean {
  const { values } = pino.levels;
  return (values[JSON.parse(line).level] ?? 0) >= (values[level] ?? 0);
}

/** Captures the lines that a logger writes. */
export class LogCapture {
  readonly lines: string[] = [];
  readonly log: Logger;
  readonly #awaitedTexts: { text: string; resolve: () => void }[] = [];

  /** @param level the lowest captured level */
  constructor(level: string) {
    this.log = createLogger(level, {
      write: (line) => {
        this.lines.push(line);
        for (const { text, resolve } of this.#awaitedTexts) {
          if (line.includes(text)) {
            resolve();
          }
        }
      },
    });
  }

  /** Waits until a line contains the text. */
  async waitForText(text: string): Promise<void> {
    if (!this.lines.some((line) => line.includes(text))) {
      await new Promise<void>((resolve) => this.#awaitedTexts.push({ text, resolve }));
    }
  }
}
