const MAX_DISPLAY_LENGTH = 200;

/**
 * The commas and opening brackets in a long JSON text. A batch check of 1000 quotes has about 12,000. More would take
 * too long to parse: up to half a microsecond each.
 */
export const MAX_JSON_ELEMENTS = 16_000;

/** Shorter texts take at most a few milliseconds to parse, whatever they contain. */
const LONG_JSON_LENGTH = 64 * 1024;

/** Bytes that were decoded as UTF-8 have lone surrogates only in escape sequences. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/**
 * Parses untrusted JSON; returns undefined if it is invalid or has too many elements. Replaces lone surrogates in
 * strings by U+FFFD, because programs store and hash them differently, and PostgreSQL rejects them.
 *
 * @param maxElements the commas and opening brackets that are allowed; by default, only a long text is limited
 */
export function tryParseJson(
  text: string,
  maxElements = text.length > LONG_JSON_LENGTH ? MAX_JSON_ELEMENTS : Number.POSITIVE_INFINITY,
): unknown {
  if (maxElements < text.length && hasMoreElements(text, maxElements)) {
    return undefined;
  }
  try {
    const value: unknown = JSON.parse(text);
    return SURROGATE_ESCAPE.test(text) ? makeWellFormed(value) : value;
  } catch {
    return undefined;
  }
}

/** Several times faster than a reviver of `JSON.parse`. Throws RangeError if the value is nested too deeply. */
function makeWellFormed(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.toWellFormed();
  }
  if (Array.isArray(value)) {
    return value.map(makeWellFormed);
  }
  if (typeof value === 'object' && value !== null) {
    const members = value as Record<string, unknown>;
    for (const key of Object.keys(members)) {
      members[key] = makeWellFormed(members[key]);
    }
  }
  return value;
}

function hasMoreElements(text: string, maxElements: number): boolean {
  let count = 0;
  for (const character of [',', '[', '{']) {
    // Much faster than a loop over all characters.
    for (let i = text.indexOf(character); i !== -1; i = text.indexOf(character, i + 1)) {
      count += 1;
      if (count > maxElements) {
        return true;
      }
    }
  }
  return false;
}

/** Makes untrusted text safe to display: printable, on one line, truncated. */
export function toDisplayText(text: string, maxLength = MAX_DISPLAY_LENGTH): string {
  return stripControlCharacters(text.slice(0, maxLength)).replace(/\s+/g, ' ').trim();
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

/** Returns a text with invalid escapes undecoded. */
function tryDecodeUriComponent(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
