/** Commas and opening brackets in a text. A batch of 1000 quotes has about 12,000. Each takes up to 0.5 µs to parse. */
export const MAX_JSON_ELEMENTS = 16_000;

/**
 * Parses untrusted JSON; returns undefined if it is invalid or has too many elements. Replaces lone surrogates in
 * strings by U+FFFD, because programs store and hash them differently, and PostgreSQL rejects them.
 *
 * @param maxElements how many commas and opening brackets are allowed; by default, only texts over 64 KiB have a limit
 */
export function tryParseJson(
  text: string,
  maxElements = text.length > 64 * 1024 ? MAX_JSON_ELEMENTS : Number.POSITIVE_INFINITY,
): unknown {
  // A text cannot have more elements than characters.
  if (maxElements < text.length && hasMoreElements(text, maxElements)) {
    return undefined;
  }
  try {
    const value: unknown = JSON.parse(text);
    // Text that was decoded from UTF-8 has lone surrogates only in escape sequences.
    return /\\u[dD][89a-fA-F]/.test(text) ? makeWellFormed(value) : value;
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
    // `indexOf` is much faster than a loop over all characters.
    for (let i = text.indexOf(character); i !== -1; i = text.indexOf(character, i + 1)) {
      count += 1;
      if (count > maxElements) {
        return true;
      }
    }
  }
  return false;
}

/** Makes one short line of a text, for logs and messages. */
export function toDisplayText(text: string, maxLength = 200): string {
  return stripControlCharacters(text.slice(0, maxLength)).replace(/\s+/g, ' ').trim();
}

/** Removes terminal and bidirectional control characters, except line ends and tabs. */
export function stripControlCharacters(text: string): string {
  // `\P{C}` is every character outside the Unicode category "other", so this class is that category without \n and \t.
  return text.replace(/[^\P{C}\n\t]/gu, '');
}

/** Returns what a query value may mean: some clients encode a space as `+`, and others leave `+` unencoded. */
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
