import { z } from 'zod';

/** A whole number from 0. Mints that use cashu-ts write amounts as text in JSON. */
export const wholeNumberSchema = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d{1,16}$/)
      .transform(Number),
  ])
  .pipe(z.int().nonnegative());
