import { z } from 'zod';

/** What a mint advertises (NUT-06), reduced to what this service uses. */
export interface MintInfo {
  /** Minting is enabled for bolt11 and sat (NUT-04). */
  supportsBolt11Sat: boolean;
  /** Null for no limit, like the maximum. */
  minAmountSat: number | null;
  maxAmountSat: number | null;
  /** Locked quotes (NUT-20). */
  supportsLocking: boolean;
  /** Notifications about bolt11 quotes in sat (NUT-17). */
  supportsSubscriptions: boolean;
  /** Many bolt11 quotes in one request (NUT-29); null if unsupported. */
  batchCheck: { maxBatchSize: number } | null;
  /** The state of proofs, and earlier signatures (NUT-07, NUT-09). */
  supportsRestore: boolean;
  /** Invoices with a given description (NUT-23). */
  supportsDescription: boolean;
  /** Invoices with a description hash (proposed for NUT-23, nuts PR 417). */
  supportsDescriptionHash: boolean;
}

/** Nutshell's maximum; the response is a megabyte or two. Larger sizes that a mint allows are not used. */
const MAX_BATCH_SIZE = 1000;

/** For a mint that does not advertise a size: cdk-mintd's default. */
const DEFAULT_BATCH_SIZE = 100;

/** Mints have a handful of methods. */
const MAX_LIST_LENGTH = 1000;

/** Only `true` counts as true. */
const flagSchema = z.boolean().catch(false);

/** Mints send 0 or null for no limit. */
const limitSchema = z.int().positive().nullable().catch(null);

const bolt11SatShape = { method: z.literal('bolt11'), unit: z.literal('sat') };

const descriptionShape = { description: flagSchema, description_hash: flagSchema };

/** Some versions of cdk-mintd have options beside `options`. */
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

/** cdk-mintd omits `supported` if it supports batches; the list of methods may be missing too. */
const batchCheckSchema = z
  .object({
    supported: z.unknown().refine((supported) => supported !== false),
    methods: z.unknown().refine((list) => !Array.isArray(list) || list.includes('bolt11')),
    max_batch_size: limitSchema,
  })
  .partial()
  .transform(({ max_batch_size: size }) => ({
    maxBatchSize: Math.min(size ?? DEFAULT_BATCH_SIZE, MAX_BATCH_SIZE),
  }))
  .nullable()
  .catch(null);

const infoSchema = z.object({
  nuts: z.object({
    4: z
      .object({ disabled: flagSchema, methods: listOf(bolt11MethodSchema) })
      .catch({ disabled: true, methods: [] }),
    7: supportSchema,
    9: supportSchema,
    17: z
      .object({
        supported: listOf(z.object({ ...bolt11SatShape, commands: z.array(z.unknown()) })),
      })
      .catch({ supported: [] }),
    20: supportSchema,
    29: batchCheckSchema,
  }),
});

/**
 * Parses the response of `/v1/info`. Mints differ, so each part is parsed separately: a missing or malformed
 * part counts as not advertised.
 *
 * @returns null if the response is not a mint's
 */
export function parseMintInfo(body: unknown): MintInfo | null {
  const nuts = infoSchema.safeParse(body).data?.nuts;
  if (nuts === undefined) {
    return null;
  }
  const method = nuts[4].disabled ? undefined : nuts[4].methods[0];
  return {
    supportsBolt11Sat: method !== undefined,
    minAmountSat: method?.min_amount ?? null,
    maxAmountSat: method?.max_amount ?? null,
    supportsLocking: nuts[20],
    supportsSubscriptions: nuts[17].supported.some(({ commands }) =>
      commands.includes('bolt11_mint_quote'),
    ),
    batchCheck: nuts[29],
    supportsRestore: nuts[7] && nuts[9],
    supportsDescription: method?.description || method?.options?.description || false,
    supportsDescriptionHash: method?.description_hash || method?.options?.description_hash || false,
  };
}

/** A list whose malformed entries are skipped; empty if it is not a list. */
function listOf<T>(schema: z.ZodType<T>) {
  return z
    .array(z.unknown())
    .catch([])
    .transform((list) =>
      list.slice(0, MAX_LIST_LENGTH).flatMap((entry) => schema.safeParse(entry).data ?? []),
    );
}
