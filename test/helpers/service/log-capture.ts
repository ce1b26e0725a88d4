import { pino } from 'pino';
import { createLogger, type Logger } from '../../../src/log.ts';

export function hasLevel(line: string, level: 'warn' | 'error'): boolean {
  const { values } = pino.levels;
  return (values[JSON.parse(line).level] ?? 0) >= (values[level] ?? 0);
}

export class LogCapture {
  readonly lines: string[] = [];
  readonly log: Logger;
  readonly #awaitedTexts: { text: string; resolve: () => void }[] = [];

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

  async waitForText(text: string): Promise<void> {
    if (!this.lines.some((line) => line.includes(text))) {
      await new Promise<void>((resolve) => this.#awaitedTexts.push({ text, resolve }));
    }
  }
}
