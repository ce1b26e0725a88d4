import { createHash } from 'node:crypto';
import type { Actor, Scheduler } from './scheduler.ts';

export interface HistoryLine {
  atMs: number;
  actor: string;
  text: string;
}

/** What happened, line by line. Recorded only if somebody reads it, because the texts take more time than the events. */
export class History {
  readonly lines: HistoryLine[] = [];
  readonly #scheduler: Scheduler;
  readonly #isRecording: boolean;

  constructor(scheduler: Scheduler, isRecording: boolean) {
    this.#scheduler = scheduler;
    this.#isRecording = isRecording;
  }

  add(actor: Actor | string, describe: () => string): void {
    if (this.#isRecording) {
      const name = typeof actor === 'string' ? actor : actor.name;
      this.lines.push({ atMs: this.#scheduler.nowMs, actor: name, text: describe() });
    }
  }

  render(): string {
    return this.lines.map(renderLine).join('\n');
  }

  /** Two runs of a seed have the same hash. */
  hash(): string {
    return createHash('sha256').update(this.render()).digest('hex');
  }
}

function renderLine({ atMs, actor, text }: HistoryLine): string {
  const seconds = (atMs / 1_000).toFixed(4).padStart(11);
  return `${seconds}  ${actor.padEnd(14)} ${text}`;
}
