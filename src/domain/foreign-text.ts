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
  return withoutControls(text.slice(0, MAX_LENGTH)).replace(/\s+/g, ' ').trim();
}

/** Without what moves a terminal's cursor or turns the direction of writing; line ends and tabs stay. */
export function withoutControls(text: string): string {
  return text.replace(/[^\P{C}\n\t]/gu, '');
}
