import { createHash } from 'node:crypto';
import { Amount, verifyMintQuoteSignature } from '@cashu/cashu-ts';
import { schnorr } from '@noble/curves/secp256k1.js';
import type { Output } from './ledger.ts';

/**
 * Whether a mint request is signed by the quote's key (NUT-20).
 *
 * The signed message changed once; wallets try both, and both are taken here. cashu-ts checks the
 * older one only.
 *
 * @param pubkey 33 bytes, hex
 * @param signature 64 bytes, hex
 */
export function isSignedBy(
  pubkey: string,
  quoteId: string,
  outputs: Output[],
  signature: string,
): boolean {
  const serialized = outputs.map((output) => ({ ...output, amount: Amount.from(output.amount) }));
  return (
    isAmendedMessageSigned(pubkey, quoteId, outputs, signature) ||
    verifyMintQuoteSignature(pubkey, quoteId, serialized, signature)
  );
}

const DOMAIN_TAG = 'Cashu_MintQuoteSig_v1';

function isAmendedMessageSigned(
  pubkey: string,
  quoteId: string,
  outputs: Output[],
  signature: string,
): boolean {
  const hash = createHash('sha256').update(DOMAIN_TAG);
  const parts = [
    Buffer.from(quoteId),
    ...outputs.flatMap(({ amount, B_ }) => [amountBytes(amount), Buffer.from(B_, 'hex')]),
  ];
  for (const part of parts) {
    hash.update(lengthBytes(part)).update(part);
  }
  try {
    const xOnlyPubkey = Buffer.from(pubkey.slice(2), 'hex');
    return schnorr.verify(Buffer.from(signature, 'hex'), hash.digest(), xOnlyPubkey);
  } catch {
    return false;
  }
}

/** Big-endian without leading zeros; nothing at all for 0. */
function amountBytes(amount: number): Buffer {
  const hex = amount === 0 ? '' : amount.toString(16);
  return Buffer.from(hex.length % 2 === 1 ? `0${hex}` : hex, 'hex');
}

function lengthBytes(part: Buffer): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(part.length);
  return bytes;
}
