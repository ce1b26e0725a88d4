/**
 * Returns whether a value can be the tags of an event (NIP-01): lists of well-formed text. Programs hash a
 * lone surrogate in different ways, and databases replace it.
 *
 * Not a zod schema: zod lists every mistake, and throws if a hostile event has 100,000 of them.
 */
export function isListOfTags(value: unknown): value is string[][] {
  return (
    Array.isArray(value) &&
    value.every((tag: unknown) => Array.isArray(tag) && tag.every(isWellFormedText))
  );
}

/** Returns whether a value is text that every program encodes in the same bytes. */
export function isWellFormedText(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed();
}
