import { type Log, openLog } from '../../src/log.ts';

/** A log whose lines a test can read. */
export class LogCapture {
  readonly lines: string[] = [];
  readonly log: Log;
  readonly #waiting: { text: string; resolve: () => void }[] = [];

  /** @param level what is less than this is not written */
  constructor(level: string) {
    this.log = openLog(level, {
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

  async until(text: string): Promise<void> {
    if (!this.lines.some((line) => line.includes(text))) {
      await new Promise<void>((resolve) => this.#waiting.push({ text, resolve }));
    }
  }
}
