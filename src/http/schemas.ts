import { z } from 'zod';

/** A whole number in a query string; anything else is the client's mistake and named as such. */
export function queryInteger(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const error = ({ input }: { input?: unknown }) => {
    if (Array.isArray(input)) {
      return 'must be given once';
    }
    return typeof input === 'number'
      ? `must be a whole number from ${min} to ${max}`
      : 'must be a whole number';
  };
  return z.preprocess(
    (text) => (typeof text === 'string' && /^\d+$/.test(text) ? Number(text) : text),
    // Digits alone make whole numbers.
    z.number({ error }).min(min, { error }).max(max, { error }).meta({ type: 'integer' }),
  );
}

/** A JSON body. One that is missing is treated as empty, so that the answer names what it lacks. */
export function jsonBody<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((body) => body ?? {}, z.object(shape, { error: 'must be a JSON object' }));
}

/** The envelope of what the API answers where nothing is wrong (spec.md section 1). */
export function success<Data extends z.ZodType>(data: Data) {
  return z.object({ error: z.literal(false), data });
}

/** A time in an answer. */
export const unixSeconds = z.number().meta({ type: 'integer' });

/** A whole number of an answer: sats, millisatoshis or a count, and never a text. */
export const wholeNumber = z.number().min(0).meta({ type: 'integer' });

/** A Nostr public key of an answer. */
export const hexKey = z.string().regex(/^[0-9a-f]{64}$/);
