/** A sentence or two, for a log line or a person. */
const MAX_LENGTH = 200;

/** Parses untrusted JSON; returns undefined if it is invalid. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns untrusted text in a form that may be shown: printable, one line, short. */
export function printable(text: string): string {
  return withoutControls(text.slice(0, MAX_LENGTH)).replace(/\s+/g, ' ').trim();
}

/** Removes what moves a terminal's cursor or changes the writing direction; line ends and tabs stay. */
export function withoutControls(text: string): string {
  return text.replace(/[^\P{C}\n\t]/gu, '');
}

/**
 * Returns what a value of a URL's query may mean, the more usual reading first: at most two texts.
 *
 * A form encodes a space as `+`, but JavaScript's `encodeURI` keeps a `+`; the value itself does not show which was
 * used. A value with invalid escapes is read as it is.
 */
export function formReadings(encoded: string): string[] {
  const readings = [encoded.replaceAll('+', ' '), encoded].map(decode);
  return [...new Set(readings)];
}

function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
