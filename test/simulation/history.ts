import { createHash } from 'node:crypto';
import type { Actor, Scheduler } from './scheduler.ts';

export interface HistoryLine {
  atMs: number;
  actor: string;
  text: string;
}

/** The actor of the lines that say which fault happens. */
export const FAULT = 'fault';

/** What happened, line by line. Recorded only if it will be printed, because the texts take more time than the events. */
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
}

/** @param names of ids, for people */
export function renderLine(
  { atMs, actor, text }: HistoryLine,
  names: ReadonlyMap<string, string>,
): string {
  const readable = renameWords(text, names).replaceAll('"', '');
  const isLong = readable.length > MAX_TEXT_LENGTH;
  const cut = isLong ? `${readable.slice(0, MAX_TEXT_LENGTH)}…` : readable;
  return `${(atMs / 1_000).toFixed(4).padStart(11)}  ${actor.padEnd(13)} ${cut}`;
}

/** Replaces ids, keys, invoices, tokens and signatures by their names or their beginnings. */
export function renameWords(text: string, names: ReadonlyMap<string, string>): string {
  return text.replaceAll(/[\w-]{30,}/g, (word) => names.get(word) ?? `${word.slice(0, 8)}…`);
}

const MAX_TEXT_LENGTH = 220;

/** Two runs of a seed have the same hash. */
export function hashLines(lines: readonly string[]): string {
  return createHash('sha256').update(lines.join('\n')).digest('hex');
}

/** The line of a log, without what the history says anyway. */
export function describeLogLine(line: string): string {
  const { level, event, time, pid, hostname, msg, reqId, err, ...rest } = JSON.parse(line);
  const details = Object.entries({
    ...rest,
    ...(err && { err: err.cause?.message ?? err.message }),
  });
  const text = details.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(' ');
  return `logs ${level === 'info' ? '' : `${level}: `}${event ?? msg} ${text}`;
}
