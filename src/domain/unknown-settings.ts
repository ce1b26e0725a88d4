/** Prefixes that only settings of nutpost have. */
const OWN_PREFIX = /^(?:LIMIT|ZAP|USERNAME|TREASURY|LNURL|JWT|METRICS|TRUST|PUBLIC)_/;

/** Shorter names are too similar to variables of other programs: `HOST` and `POST` differ by one letter. */
const MIN_SIMILAR_LENGTH = 8;

/** Letters that may differ between a misspelt name and the setting that was meant. */
const MAX_EDITS = 2;

/** An environment variable that looks like a setting and is none. */
export interface UnknownSetting {
  name: string;
  /** The setting that was probably meant; null if none is similar. */
  suggestion: string | null;
}

/**
 * Finds environment variables that look like settings and have no effect: they start with a prefix of ours, or
 * are a misspelt setting.
 *
 * @param names the names of all environment variables
 * @param known the names of all settings
 */
export function unknownSettings(
  names: readonly string[],
  known: readonly string[],
): UnknownSetting[] {
  return names
    .filter((name) => !known.includes(name))
    .map((name) => ({ name, suggestion: similarSetting(name.toUpperCase(), known) }))
    .filter(({ name, suggestion }) => suggestion !== null || OWN_PREFIX.test(name.toUpperCase()));
}

function similarSetting(name: string, known: readonly string[]): string | null {
  if (name.length < MIN_SIMILAR_LENGTH) {
    return null;
  }
  return known.find((setting) => editDistance(name, setting) <= MAX_EDITS) ?? null;
}

/** The Levenshtein distance: letters to insert, delete or replace. Computed row by row. */
function editDistance(one: string, other: string): number {
  let previous = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [row, letter] of [...one].entries()) {
    const current = [row + 1];
    for (const [column, otherLetter] of [...other].entries()) {
      const replaced = (previous[column] ?? 0) + (letter === otherLetter ? 0 : 1);
      const deleted = (previous[column + 1] ?? 0) + 1;
      const inserted = (current[column] ?? 0) + 1;
      current.push(Math.min(replaced, deleted, inserted));
    }
    previous = current;
  }
  return previous.at(-1) ?? 0;
}
