import { z } from 'zod';

/** Checks the form of a Nostr event (NIP-01), but no signature. Each error continues the sentence "The event …". */
export const nostrEventSchema = z.object(
  {
    id: hexSchema('id', 64),
    pubkey: hexSchema('pubkey', 64),
    created_at: naturalNumberSchema("must have Unix seconds as its 'created_at'"),
    kind: naturalNumberSchema("must have a number as its 'kind'"),
    tags: z.custom<string[][]>(isTagList, "must have lists of text as its 'tags'"),
    content: z.string("must have text as its 'content'"),
    sig: hexSchema('sig', 128),
  },
  { error: 'must be a Nostr event, which is a JSON object' },
);

export type NostrEvent = z.infer<typeof nostrEventSchema>;

export type Tags = readonly (readonly string[])[];

/** Returns the first value of each tag with this name. */
export function tagValues(tags: Tags, name: string): string[] {
  return tags.filter((tag) => tag[0] === name).map(([, value = '']) => value);
}

function hexSchema(name: string, digits: number) {
  const error = `must have ${digits} lower-case hexadecimal digits as its '${name}'`;
  return z.string({ error }).regex(new RegExp(`^[0-9a-f]{${digits}}$`), { error });
}

function naturalNumberSchema(error: string) {
  return z.int(error).nonnegative(error);
}

/** A schema of Zod would collect an issue for each malformed tag. */
function isTagList(value: unknown): value is string[][] {
  return (
    Array.isArray(value) &&
    value.every(
      (tag: unknown) => Array.isArray(tag) && tag.every((part) => typeof part === 'string'),
    )
  );
}
