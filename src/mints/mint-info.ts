import { z } from 'zod';
import { toDisplayText } from '../untrusted-text.ts';
import { wholeNumberSchema } from './quote-responses.ts';

/** Released mints use the first kind. The second, for all payment methods, is proposed for NUT-17 (nuts PR 372). */
const SUBSCRIPTION_KINDS = ['bolt11_mint_quote', 'mint_quote'] as const;

export type SubscriptionKind = (typeof SUBSCRIPTION_KINDS)[number];

/** The part of a mint's info (NUT-06) that this service uses. Stored info of older versions has no name. */
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

/** cdk-mintd omits `supported` if it supports batches. The list of methods may also be missing. */
const batchCheckSchema = z
  .object({
    supported: z.unknown().refine((supported) => supported !== false),
    methods: z.unknown().refine((list) => !Array.isArray(list) || list.includes('bolt11')),
    max_batch_size: limitSchema,
  })
  .partial()
  // cdk-mintd's default, and Nutshell's maximum, for which the response is up to 2 MB.
  .transform(({ max_batch_size: size }) => ({ maxBatchSize: Math.min(size ?? 100, 1_000) }))
  .nullable()
  .catch(null);

const infoSchema = z
  .object({
    name: displayText(100),
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
  .transform(({ name, description, nuts }) => {
    const method = nuts[4].disabled ? undefined : nuts[4].methods[0];
    return {
      name,
      description,
      supportsBolt11Sat: method !== undefined,
      minAmountSat: method?.min_amount ?? null,
      maxAmountSat: method?.max_amount ?? null,
      supportsLocking: nuts[20],
      subscriptionKind:
        SUBSCRIPTION_KINDS.find((kind) =>
          nuts[17].supported.some(({ commands }) => commands.includes(kind)),
        ) ?? null,
      batchCheck: nuts[29],
      supportsRestore: nuts[7] && nuts[9],
      supportsDescription: method?.description || method?.options?.description || false,
      // Proposed for NUT-23 (nuts PR 417).
      supportsDescriptionHash:
        method?.description_hash || method?.options?.description_hash || false,
    };
  });

/** Null if the response does not come from a mint. A missing or malformed part counts as unsupported. */
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

/** Skips malformed entries, and those beyond any mint's number of them, because validating takes time. */
function lenientListOf<T>(schema: z.ZodType<T>) {
  return z
    .array(z.unknown())
    .catch([])
    .transform((list) => list.slice(0, 100).flatMap((entry) => schema.safeParse(entry).data ?? []));
}
