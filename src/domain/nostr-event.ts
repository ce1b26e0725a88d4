/**
 * Whether a value is what an event may have as its tags (NIP-01): lists of well-formed text. Programs hash
 * half a surrogate pair in different ways, and databases replace it.
 *
 * By hand: the library lists everything that is wrong, a stranger decides how much that is, and of a
 * hundred thousand faults it throws.
 */
export function isListOfTags(value: unknown): value is string[][] {
  return (
    Array.isArray(value) &&
    value.every((tag: unknown) => Array.isArray(tag) && tag.every(isWellFormedText))
  );
}

/** Whether a value is text that every program writes in the same bytes. */
export function isWellFormedText(value: unknown): value is string {
  return typeof value === 'string' && value.isWellFormed();
}
