import { z } from 'zod';

/** What a mint advertises (NUT-06), reduced to what this service uses. */
export interface MintInfo {
  /** `nuts.4` is enabled and has bolt11 with sat: the mint can take a Lightning payment for us. */
  mintsBolt11Sat: boolean;
  /** Null where the mint names no limit. */
  minAmountSat: number | null;
  /** Null where the mint names no limit. */
  maxAmountSat: number | null;
  /** Locked quotes (NUT-20). */
  locking: boolean;
  /** News of bolt11 quotes in sat over a WebSocket (NUT-17). */
  subscriptions: boolean;
  /** Many bolt11 quotes in one request (NUT-29); null where it is not offered. */
  batchCheck: { maxBatchSize: number } | null;
  /** Whether it tells the state of proofs and what it signed before (NUT-07, NUT-09). */
  restoresEcash: boolean;
  /** An invoice says what it is asked to say (NUT-23). */
  takesDescription: boolean;
  /** An invoice carries the SHA-256 of what it is for instead (proposed for NUT-23, nuts PR 417). */
  takesDescriptionHash: boolean;
}

/**
 * A batch never asks for more, whatever the mint allows: 1000 is what Nutshell takes, and an answer
 * of that many quotes is already a megabyte or two.
 */
const MAX_BATCH_SIZE = 1000;

/** For a mint that offers batches and names no size: what cdk-mintd allows by default. */
const DEFAULT_BATCH_SIZE = 100;

/** No mint has more methods than a handful; a list that goes on is not read to its end. */
const MAX_LIST_LENGTH = 1000;

/**
 * Reads the answer of `/v1/info`. Mints differ and add to it, so that each part is read by itself:
 * one that is missing or malformed counts as not advertised.
 *
 * @param answer the parsed JSON
 * @returns null where the answer is not a mint's at all
 */
export function parseMintInfo(answer: unknown): MintInfo | null {
  const info = INFO.safeParse(answer);
  if (!info.success) {
    return null;
  }
  const { nuts } = info.data;
  const minting = bolt11Sat(nuts['4']);
  return {
    mintsBolt11Sat: minting !== null,
    minAmountSat: positiveOrNull(minting?.min_amount),
    maxAmountSat: positiveOrNull(minting?.max_amount),
    locking: isSupported(nuts['20']),
    subscriptions: members(SOCKET_METHOD, read(SUPPORT, nuts['17'])?.supported).some(
      (entry) => isBolt11Sat(entry) && entry.commands.includes('bolt11_mint_quote'),
    ),
    batchCheck: batchCheck(nuts['29']),
    restoresEcash: isSupported(nuts['7']) && isSupported(nuts['9']),
    takesDescription: hasOption('description', minting),
    takesDescriptionHash: hasOption('description_hash', minting),
  };
}

const ANYTHING = z.unknown().optional();
const INFO = z.object({ nuts: z.record(z.string(), z.unknown()) });
/** NUT-04. */
const MINTING = z.object({ methods: ANYTHING, disabled: ANYTHING });
const METHOD = z.object({
  method: z.string(),
  unit: z.string(),
  min_amount: ANYTHING,
  max_amount: ANYTHING,
  options: ANYTHING,
  description: ANYTHING,
  description_hash: ANYTHING,
});
const OPTIONS = z.object({ description: ANYTHING, description_hash: ANYTHING });
/** Most say true; NUT-17 lists what it supports. */
const SUPPORT = z.object({ supported: ANYTHING });
const SOCKET_METHOD = z.object({
  method: z.string(),
  unit: z.string(),
  commands: z.array(z.unknown()),
});
const BATCH = z.object({ supported: ANYTHING, max_batch_size: ANYTHING, methods: ANYTHING });

/** The mint's bolt11 method for sat; null if it has none or minting is disabled. */
function bolt11Sat(entry: unknown): z.infer<typeof METHOD> | null {
  const minting = read(MINTING, entry);
  const method = members(METHOD, minting?.methods).find(isBolt11Sat);
  return minting?.disabled === true ? null : (method ?? null);
}

function isSupported(entry: unknown): boolean {
  return read(SUPPORT, entry)?.supported === true;
}

/** Among the options of a method, or beside it, as some versions of cdk-mintd have it. */
function hasOption(
  name: 'description' | 'description_hash',
  method: z.infer<typeof METHOD> | null,
): boolean {
  return method?.[name] === true || read(OPTIONS, method?.options)?.[name] === true;
}

/** cdk-mintd leaves `supported` out where it offers batches; a list of methods may be missing too. */
function batchCheck(entry: unknown): MintInfo['batchCheck'] {
  const batch = read(BATCH, entry);
  const isForBolt11 = !Array.isArray(batch?.methods) || batch.methods.includes('bolt11');
  if (batch === null || batch.supported === false || !isForBolt11) {
    return null;
  }
  const size = positiveOrNull(batch.max_batch_size) ?? DEFAULT_BATCH_SIZE;
  return { maxBatchSize: Math.min(size, MAX_BATCH_SIZE) };
}

function isBolt11Sat(entry: { method: string; unit: string }): boolean {
  return entry.method === 'bolt11' && entry.unit === 'sat';
}

/** Mints say 0 or null for a limit that they do not have. */
function positiveOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null;
}

function members<T>(schema: z.ZodType<T>, list: unknown): T[] {
  if (!Array.isArray(list)) {
    return [];
  }
  return list
    .slice(0, MAX_LIST_LENGTH)
    .map((entry) => read(schema, entry))
    .filter((entry) => entry !== null);
}

function read<T>(schema: z.ZodType<T>, value: unknown): T | null {
  return schema.safeParse(value).data ?? null;
}
