import { z } from 'zod';

/** The bodies of the POST routes, apart from those of quotes. Amounts in sats. */

const OUTPUT = z.object({ amount: z.int().positive(), id: z.string(), B_: z.string() });

/** An output whose amount nobody looks at: the mint knows it, or sets it (NUT-08, NUT-09). */
const BLANK = OUTPUT.extend({ amount: z.int().nonnegative() });

const INPUT = z.object({
  amount: z.int().positive(),
  id: z.string(),
  secret: z.string(),
  C: z.string(),
  witness: z
    .string()
    .nullish()
    .transform((witness) => witness ?? null),
});

/** NUT-03. */
export const SWAP_BODY = z.object({ inputs: z.array(INPUT), outputs: z.array(OUTPUT) });

/** NUT-07. */
export const CHECK_STATE_BODY = z.object({ Ys: z.array(z.string()) });

/** NUT-09. */
export const RESTORE_BODY = z.object({ outputs: z.array(BLANK) });

/** NUT-29. */
export const CHECK_QUOTES_BODY = z.object({ quotes: z.array(z.string()) });

/** NUT-04, NUT-20. */
export const MINT_BODY = z.object({
  quote: z.string(),
  outputs: z.array(OUTPUT),
  signature: z.string().nullish(),
});

/** NUT-29. */
export const BATCH_MINT_BODY = z.object({
  quotes: z.array(z.string()),
  outputs: z.array(OUTPUT),
  signatures: z.array(z.string().nullable()).nullish(),
});

/** NUT-05, NUT-08. */
export const MELT_BODY = z.object({
  quote: z.string(),
  inputs: z.array(INPUT),
  outputs: z.array(BLANK).nullish(),
});
