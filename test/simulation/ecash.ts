import {
  createBlindSignature,
  getEncodedToken,
  hashToCurve,
  normalizeProofAmounts,
} from '@cashu/cashu-ts';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { SimulatedMint } from './simulated-mint.ts';

// The ecash of buyers. It is signed with a mint's keys, but without a request to the mint.

/** What a buyer pays with. */
export interface Token {
  text: string;
  proofs: readonly Proof[];
  kind: TokenKind;
}

type Proof = ReturnType<typeof createProof>;

export const ACCEPTABLE_KINDS = ['exact', 'exact', 'exact', 'overpaid', 'with the fee'] as const;

export const UNACCEPTABLE_KINDS = [
  'worth too much',
  'worth too little',
  'of another mint',
  'with keys of another mint',
  'locked',
  'forged',
  'of too many proofs',
  'spent',
] as const;

type TokenKind = (typeof ACCEPTABLE_KINDS)[number] | (typeof UNACCEPTABLE_KINDS)[number];

interface TokenContext {
  priceSat: number;
  mint: SimulatedMint;
  /** The same if there is only one. */
  otherMint: SimulatedMint;
  random: SeededRandom;
}

export function createToken(
  kind: TokenKind,
  { priceSat, mint, otherMint, random }: TokenContext,
): Token {
  const { ledger } = (kind.endsWith('another mint') ? otherMint : mint).state;
  const amountSat = priceSat + getDifferenceSat(kind, priceSat);
  const { keysets } = ledger;
  const proofs = splitAmount(amountSat).map((sat) => createProof(keysets, sat, kind, random));
  if (kind === 'with the fee') {
    const feeSat = keysets.calculateFeeSat(proofs);
    proofs.push(...splitAmount(feeSat).map((sat) => createProof(keysets, sat, kind, random)));
  } else if (kind === 'of too many proofs') {
    const [proof] = proofs as [Proof];
    proofs.push(...Array.from({ length: 64 }, (_, index) => ({ ...proof, secret: `no ${index}` })));
  } else if (kind === 'spent') {
    spend(mint, proofs, random);
  }
  const { url } = kind === 'of another mint' ? otherMint : mint;
  const text = getEncodedToken({ mint: url, unit: 'sat', proofs: normalizeProofAmounts(proofs) });
  return { text, proofs, kind };
}

/** Swaps proofs for others, as a buyer does who also pays another recipient. Returns false if the mint rejects it. */
export function spend(
  mint: SimulatedMint,
  proofs: readonly Proof[],
  random: SeededRandom,
): boolean {
  const { ledger } = mint.state;
  const amountSat = proofs.reduce((sum, { amount }) => sum + amount, 0);
  const { id } = ledger.keysets.listSummaries().at(-1) as { id: string };
  const outputs = splitAmount(amountSat - ledger.keysets.calculateFeeSat(proofs)).map((amount) => ({
    amount,
    id,
    B_: hashToCurve(Buffer.from(createSecret(random))).toHex(true),
  }));
  try {
    ledger.beginSwap(proofs, outputs)();
    return true;
  } catch {
    return false;
  }
}

function getDifferenceSat(kind: TokenKind, priceSat: number): number {
  switch (kind) {
    case 'overpaid':
      return Math.max(1, Math.floor(priceSat / 10));
    // Far above the limit, which a unit test checks (`cashu-token.test.ts`). An amount just above it has another number of
    // proofs and so takes other random numbers, so that the seeds of planted faults would do something else.
    case 'worth too much':
      return 9 * priceSat;
    case 'worth too little':
      return -1;
    default:
      return 0;
  }
}

function createProof(
  keysets: SimulatedMint['state']['ledger']['keysets'],
  amount: number,
  kind: TokenKind,
  random: SeededRandom,
) {
  const secretText = createSecret(random);
  const secret = kind === 'locked' ? JSON.stringify(['P2PK', { data: secretText }]) : secretText;
  const { id } = keysets.listSummaries().at(-1) as { id: string };
  const key = keysets.getPrivateKey(id, kind === 'forged' ? 2 * amount : amount);
  const signature = createBlindSignature(hashToCurve(Buffer.from(secret)), key, id);
  return { id, amount, secret, C: signature.C_.toHex(true) };
}

function createSecret(random: SeededRandom): string {
  const bytes = Buffer.alloc(32);
  random.fill(bytes);
  return bytes.toString('hex');
}

/** Powers of two, of which keysets have keys. */
function splitAmount(amountSat: number): number[] {
  return Array.from({ length: 33 }, (_, exponent) => 2 ** exponent).filter(
    (power) => Math.floor(amountSat / power) % 2 === 1,
  );
}
