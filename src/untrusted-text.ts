const MAX_DISPLAY_LENGTH = 200;

/** Parses untrusted JSON; returns undefined if it is invalid. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Makes untrusted text safe to display: printable, on one line, truncated. */
export function toDisplayText(text: string): string {
  return stripControlCharacters(text.slice(0, MAX_DISPLAY_LENGTH)).replace(/\s+/g, ' ').trim();
}

/** Removes terminal and bidirectional control characters, except line ends and tabs. */
export function stripControlCharacters(text: string): string {
  return text.replace(/[^\P{C}\n\t]/gu, '');
}

/**
 * Returns the possible meanings of an encoded query value, the likelier one first. A `+` is ambiguous: forms encode a
 * space as `+`, but `encodeURI` leaves `+` unchanged. A value with invalid escapes is returned undecoded.
 */
export function decodeQueryValueCandidates(encoded: string): string[] {
  const candidates = [encoded.replaceAll('+', ' '), encoded].map(tryDecodeUriComponent);
  return [...new Set(candidates)];
}

function tryDecodeUriComponent(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
