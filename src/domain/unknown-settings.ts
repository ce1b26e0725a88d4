/** Beginnings of names that are ours: nobody else's setting is called so. */
const OWN_PREFIX = /^(?:LIMIT|ZAP|USERNAME|TREASURY|LNURL|JWT|METRICS|TRUST|PUBLIC)_/;

/** Kubernetes tells every container of a service by that name (`NUTPOST_SERVICE_HOST`); no setting is called so. */
const OF_SURROUNDINGS = /^NUTPOST_/;

/** Shorter names are near to too many others: `HOST` is `POST` but for a letter. */
const LONG_NAME = 8;

/** Letters that may be wrong in a name for it to be taken for another. */
const SLIPS_IN_SHORT_NAME = 1;
const SLIPS_IN_LONG_NAME = 2;

/** In a name that begins as ours do, half of it may be wrong: it is none of anybody else. */
const SLIPS_SHARE_OF_OWN_NAME = 0.5;

/** A name in the environment that is no setting, and was probably meant to be one. */
export interface UnknownSetting {
  name: string;
  /** The setting that it is nearest to; null where it is near to none. */
  meant: string | null;
}

/**
 * Finds settings that nobody reads: they begin as ours do, differ from one by a slip of the hand,
 * or leave out a word of one.
 *
 * @param names all names in the environment
 * @param known those that are settings
 */
export function unknownSettings(
  names: readonly string[],
  known: readonly string[],
): UnknownSetting[] {
  return names
    .filter((name) => !known.includes(name) && !OF_SURROUNDINGS.test(name))
    .map((name) => ({ name, meant: nearest(name, known) ?? longer(name, known) }))
    .filter(({ name, meant }) => meant !== null || OWN_PREFIX.test(name.toUpperCase()));
}

function nearest(name: string, known: readonly string[]): string | null {
  const written = name.toUpperCase();
  const allowed = slipsAllowed(written);
  const [best] = known
    .map((setting) => ({ setting, slips: slipsBetween(written, setting) }))
    .filter(({ slips }) => slips <= allowed)
    .sort((one, other) => one.slips - other.slips);
  return best?.setting ?? null;
}

/** The only setting that has all the words of a name, and others. */
function longer(name: string, known: readonly string[]): string | null {
  const words = name.toUpperCase().split('_');
  const longerOnes = known.filter((setting) => {
    const wordsOfSetting = new Set(setting.split('_'));
    return words.length > 1 && words.every((word) => wordsOfSetting.has(word));
  });
  return longerOnes.length === 1 ? (longerOnes[0] ?? null) : null;
}

function slipsAllowed(name: string): number {
  if (OWN_PREFIX.test(name)) {
    return Math.floor(name.length * SLIPS_SHARE_OF_OWN_NAME);
  }
  return name.length < LONG_NAME ? SLIPS_IN_SHORT_NAME : SLIPS_IN_LONG_NAME;
}

/** Letters that are missing, too many or others (Levenshtein's distance), row by row. */
function slipsBetween(one: string, other: string): number {
  let above = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [row, letter] of [...one].entries()) {
    const current = [row + 1];
    for (const [column, otherLetter] of [...other].entries()) {
      const isSame = letter === otherLetter;
      current.push(
        Math.min(
          (above[column] ?? 0) + (isSame ? 0 : 1),
          (above[column + 1] ?? 0) + 1,
          (current[column] ?? 0) + 1,
        ),
      );
    }
    above = current;
  }
  return above.at(-1) ?? 0;
}
