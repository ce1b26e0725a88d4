import { z } from 'zod';

/** A whole number in a query string; anything else is the client's mistake and named as such. */
export function queryInteger(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  return z
    .string({ error: 'must be given once' })
    .regex(/^\d+$/, { error: 'must be a whole number' })
    .transform(Number)
    .refine((value) => value >= min && value <= max, {
      error: `must be a whole number from ${min} to ${max}`,
    });
}

/** A JSON body. One that is missing is treated as empty, so that the answer names what it lacks. */
export function jsonBody<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((body) => body ?? {}, z.object(shape, { error: 'must be a JSON object' }));
}
