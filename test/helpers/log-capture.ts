import { createLogger, type Logger } from '../../src/log.ts';

/** A logger that captures its lines. */
export class LogCapture {
  readonly lines: string[] = [];
  readonly log: Logger;
  readonly #waiting: { text: string; resolve: () => void }[] = [];

  /** @param level the lowest captured level */
  constructor(level: string) {
    this.log = createLogger(level, {
      write: (line) => {
        this.lines.push(line);
        for (const { text, resolve } of this.#waiting) {
          if (line.includes(text)) {
            resolve();
          }
        }
      },
    });
  }

  async waitForText(text: string): Promise<void> {
    if (!this.lines.some((line) => line.includes(text))) {
      await new Promise<void>((resolve) => this.#waiting.push({ text, resolve }));
    }
  }
}
