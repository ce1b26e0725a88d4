import { z } from 'zod';
import { toDisplayText } from '../untrusted-text.ts';
import { wholeNumberSchema } from './quote-responses.ts';

/** Released mints use the first. The second, for all payment methods, is proposed for NUT-17 (nuts PR 372). */
const SUBSCRIPTION_KINDS = ['bolt11_mint_quote', 'mint_quote'] as const;

export type SubscriptionKind = (typeof SUBSCRIPTION_KINDS)[number];

/** The part of a mint's info (NUT-06) that this service uses. Older versions of nutpost stored no name or version. */
export type MintInfo = z.infer<typeof infoSchema>;

const flagSchema = z.boolean().catch(false);

/** Mints send 0 or null for no limit. */
const limitSchema = wholeNumberSchema.transform((limit) => limit || null).catch(null);

const bolt11SatShape = { method: z.literal('bolt11'), unit: z.literal('sat') };

const descriptionShape = { description: flagSchema, description_hash: flagSchema };

/** Some versions of cdk-mintd send the description flags in `options`, others beside it. */
const bolt11MethodSchema = z.object({
  ...bolt11SatShape,
  ...descriptionShape,
  min_amount: limitSchema,
  max_amount: limitSchema,
  options: z.object(descriptionShape).nullable().catch(null),
});

const supportSchema = z
  .object({ supported: flagSchema })
  .catch({ supported: false })
  .transform(({ supported }) => supported);

/** Mints may omit each field: cdk-mintd supports batches, but omits `supported`. */
const batchCheckSchema = z
  .object({
    supported: z.unknown().refine((supported) => supported !== false),
    methods: z.unknown().refine((list) => !Array.isArray(list) || list.includes('bolt11')),
    max_batch_size: limitSchema,
  })
  .partial()
  // 100 is cdk-mintd's default. 1000 is Nutshell's maximum, for which the response is up to 2 MB.
  .transform(({ max_batch_size: size }) => ({ maxBatchSize: Math.min(size ?? 100, 1_000) }))
  .nullable()
  .catch(null);

const infoSchema = z
  .object({
    name: displayText(100),
    version: displayText(100),
    description: displayText(300),
    nuts: z.object({
      4: z
        .object({ disabled: flagSchema, methods: lenientListOf(bolt11MethodSchema) })
        .catch({ disabled: true, methods: [] }),
      7: supportSchema,
      9: supportSchema,
      17: z
        .object({
          supported: lenientListOf(z.object({ ...bolt11SatShape, commands: z.array(z.unknown()) })),
        })
        .catch({ supported: [] }),
      20: supportSchema,
      29: batchCheckSchema,
    }),
  })
  .transform(({ name, version, description, nuts }) => {
    const minting = nuts[4].disabled ? undefined : nuts[4].methods[0];
    return {
      name,
      version,
      description,
      supportsBolt11Sat: minting !== undefined,
      minAmountSat: minting?.min_amount ?? null,
      maxAmountSat: minting?.max_amount ?? null,
      supportsLocking: nuts[20],
      subscriptionKind:
        SUBSCRIPTION_KINDS.find((kind) =>
          nuts[17].supported.some(({ commands }) => commands.includes(kind)),
        ) ?? null,
      batchCheck: nuts[29],
      // The states of the proofs are checked first (NUT-07).
      supportsRestore: nuts[7] && nuts[9],
      supportsDescription: minting?.description || minting?.options?.description || false,
      // Proposed for NUT-23 (nuts PR 417).
      supportsDescriptionHash:
        minting?.description_hash || minting?.options?.description_hash || false,
    };
  });

/** Returns null if the response is not a mint's. A missing or malformed part counts as unsupported. */
export function parseMintInfo(body: unknown): MintInfo | null {
  return infoSchema.safeParse(body).data ?? null;
}

function displayText(maxLength: number) {
  return z
    .string()
    .transform((text) => {
      const short = toDisplayText(text, maxLength);
      // A copy, because a slice would keep the whole text in memory.
      return short === '' ? null : Buffer.from(short).toString();
    })
    .catch(null);
}

/** Skips malformed entries. Also skips those after 100, more than any mint has, because validating takes time. */
function lenientListOf<T>(schema: z.ZodType<T>) {
  return z
    .array(z.unknown())
    .catch([])
    .transform((list) => list.slice(0, 100).flatMap((item) => schema.safeParse(item).data ?? []));
}
