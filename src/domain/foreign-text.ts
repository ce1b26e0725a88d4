/** A stranger's explanation goes to a log line or a person: a sentence or two. */
const MAX_LENGTH = 200;

/** Parses JSON from a stranger; undefined where it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A stranger's words as they may be shown: printable, one line, short. */
export function printable(text: string): string {
  return text
    .slice(0, MAX_LENGTH)
    .replace(/[^\P{C}\n\t]/gu, '')
    .replace(/\s+/g, ' ')
    .trim();
}
