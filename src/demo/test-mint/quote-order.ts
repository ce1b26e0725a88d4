import { pointFromHex } from '@cashu/cashu-ts';
import { z } from 'zod';
import { parseBody } from './body.ts';
import type { QuoteOrder } from './quotes.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintSwitches } from './switches.ts';

/** Reads `POST /v1/mint/quote/bolt11` (NUT-23), refusing what a mint of this style refuses. */
export function readQuoteOrder(body: unknown, switches: TestMintSwitches): QuoteOrder {
  const { amount, unit, description, description_hash, pubkey } = parseBody(QUOTE_BODY, body);
  refuseAmount(amount, switches);
  if (unit !== 'sat') {
    const detail = `unit '${unit}' not supported in any keyset.`;
    throw new MintRefusal({
      kind: 'unit_unsupported',
      ...(switches.style === 'nutshell' && { detail }),
    });
  }
  if (switches.mintDisabled) {
    throw new MintRefusal({ kind: 'minting_disabled' });
  }
  if (description) {
    refuseDescription(description, switches);
  }
  const descriptionHash = switches.descriptionHash ? description_hash : null;
  if (descriptionHash) {
    refuseDescriptionHash(descriptionHash, description);
  }
  refuseUnbearableWords(description || descriptionHash || '', switches);
  if (pubkey && switches.style === 'cdk') {
    refusePubkeyOffTheCurve(pubkey);
  }
  const isLockKept = switches.locking && switches.echoPubkey;
  return {
    amountSat: amount,
    pubkey: (isLockKept && pubkey) || null,
    description: description ?? '',
    descriptionHash: descriptionHash ? Buffer.from(descriptionHash, 'hex') : null,
  };
}

/** Both mints' limit; Nutshell counts characters, cdk bytes. */
const MAX_DESCRIPTION_LENGTH = 1024;

const QUOTE_BODY = z.object({
  amount: z.int(),
  unit: z.string(),
  description: z.string().nullish(),
  description_hash: z.string().nullish(),
  pubkey: z.string().nullish(),
});

function refuseAmount(amount: number, switches: TestMintSwitches): void {
  const { style, minAmountSat, maxAmountSat } = switches;
  if (style === 'nutshell' && amount <= 0) {
    throw invalidField('amount', 'Input should be greater than 0');
  }
  const minimum = Math.max(1, minAmountSat ?? 1);
  const maximum = maxAmountSat ?? Number.MAX_SAFE_INTEGER;
  if (amount < minimum || amount > maximum) {
    const detail = `Amount must be between \`${minimum}\` and \`${maximum}\` is \`${amount}\``;
    throw new MintRefusal({ kind: 'amount_out_of_range', detail });
  }
}

function refuseDescription(description: string, switches: TestMintSwitches): void {
  if (!switches.description) {
    throw new MintRefusal({ kind: 'description_unsupported' });
  }
  if (switches.style === 'nutshell' && description.length > MAX_DESCRIPTION_LENGTH) {
    const message = `String should have at most ${MAX_DESCRIPTION_LENGTH} characters`;
    throw invalidField('description', message);
  }
  const bytes = Buffer.byteLength(description);
  if (switches.style === 'cdk' && bytes > MAX_DESCRIPTION_LENGTH) {
    const detail = `Request field 'description' too large: ${bytes} bytes, max ${MAX_DESCRIPTION_LENGTH}`;
    throw new MintRefusal({ kind: 'description_too_long', detail });
  }
}

/** An invoice has one of the two (BOLT 11). */
function refuseDescriptionHash(hash: string, description: string | null | undefined): void {
  if (!/^[0-9a-f]{64}$/.test(hash)) {
    throw invalidField('description_hash', 'String should be a SHA-256 in hex');
  }
  if (description) {
    throw invalidField('description_hash', 'Only one of description and description_hash');
  }
}

function refuseUnbearableWords(words: string, { refusesWords }: TestMintSwitches): void {
  if (refusesWords !== null && Buffer.byteLength(words) > refusesWords.longerThanBytes) {
    throw new MintRefusal({ kind: 'words_refused', status: refusesWords.status, words });
  }
}

function refusePubkeyOffTheCurve(pubkey: string): void {
  try {
    pointFromHex(pubkey);
  } catch {
    throw new MintRefusal({ kind: 'pubkey_invalid' });
  }
}

function invalidField(name: string, message: string): MintRefusal {
  const issues = [{ path: [name], message, isMissing: false }];
  return new MintRefusal({ kind: 'invalid_body', issues });
}
