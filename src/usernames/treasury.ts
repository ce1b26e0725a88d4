import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { type Db, tryTransaction } from '../database/transaction.ts';
import { OperatorError } from '../errors.ts';
import type { Proof } from '../mints/ecash.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import type { Sealer } from '../sealer.ts';
import { encodeToken } from './ecash/cashu-token.ts';
import { computeY, mapInSlices, sumAmounts } from './ecash/proofs.ts';
import { EXPIRY_WARNING_MS, MAX_LISTED } from './limits.ts';
import { listOpenPurchases, readTotalSales } from './purchase-store.ts';
import {
  findWithdrawal,
  listBalances,
  listExpiringEcash,
  listTreasuryProofs,
  type MintBalance,
  moveProofsToWithdrawal,
  needsTreasurySecret,
  readActiveTreasuryKeyId,
  type SealedProof,
} from './treasury-store.ts';

export interface WithdrawalOrder {
  /** Normalised; null for the only mint with ecash. */
  mintUrl: string | null;
  /** Null for everything at the mint, or for the largest proofs if not all fit in one token. */
  amountSat: number | null;
}

/** If the outcome is not `token`, nothing was withdrawn. */
export type WithdrawalResult =
  | { outcome: 'token'; id: string; token: string; amountSat: number; leftSat: number }
  | { outcome: 'empty' }
  | { outcome: 'choose_mint'; balances: MintBalance[] }
  /** `availableSat` is the nearest lower amount that proofs in one token add up to. */
  | { outcome: 'not_exact'; requestedSat: number; availableSat: number }
  /** Another command has withdrawn some of the proofs. */
  | { outcome: 'conflict' };

export interface TreasuryContext {
  db: Db;
  sealer: Sealer | null;
  /** Who uses the treasury. */
  systemUser: string;
  clock: Clock;
}

/** Returns whether there is neither a treasury secret nor anything that needs it. */
export async function isTreasuryUnused({ sealer, db }: TreasuryContext): Promise<boolean> {
  return sealer === null && !(await needsTreasurySecret(db));
}

export async function readTreasuryOverview({ sealer, db, clock }: TreasuryContext) {
  const nowMs = clock();
  return {
    nowMs,
    secretProblem: await findTreasuryProblem(sealer, db),
    balances: await listBalances(db),
    expiring: await listExpiringEcash(db, nowMs + EXPIRY_WARNING_MS),
    sales: await readTotalSales(db),
    openPurchases: await listOpenPurchases(db, MAX_LISTED),
  };
}

/** Makes a token of stored proofs. Keeps expired ones until no others are left: a mint would reject the whole token. */
export async function withdrawFromTreasury(
  { db, sealer: optionalSealer, systemUser, clock }: TreasuryContext,
  { mintUrl: orderedMintUrl, amountSat: requestedSat }: WithdrawalOrder,
): Promise<WithdrawalResult> {
  const sealer = requireSealer(optionalSealer);
  const balances = await listBalances(db);
  const [balance, ...otherBalances] = balances.filter(
    ({ mintUrl }) => orderedMintUrl === null || orderedMintUrl === mintUrl,
  );
  if (balance === undefined) {
    return { outcome: 'empty' };
  }
  if (otherBalances.length > 0) {
    return { outcome: 'choose_mint', balances };
  }
  const { mintUrl } = balance;
  const stored = await listTreasuryProofs(db, mintUrl);
  const nowMs = clock();
  const unexpired = stored.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs);
  const selected = selectProofs(unexpired.length > 0 ? unexpired : stored, requestedSat);
  // Wallets and mints reject tokens of more than 1000 proofs.
  const withdrawn = selected.slice(0, 500);
  const amountSat = sumAmounts(withdrawn);
  if (requestedSat !== null && amountSat !== requestedSat) {
    return { outcome: 'not_exact', requestedSat, availableSat: amountSat };
  }
  const proofs = await Promise.all(withdrawn.map((proof) => openProof(sealer, proof)));
  const id = randomUUID();
  const sealedProofs = await sealer.seal(`token ${id}`, proofs);
  const withdrawal = { id, mintUrl, amountSat, createdAtMs: nowMs, sealedProofs };
  const ys = withdrawn.map(({ y }) => y);
  const isWithdrawn =
    ys.length > 0 &&
    (await tryTransaction(db, async (tx) => {
      const change = { pubkey: null, name: null, before: null, after: { id, mintUrl, amountSat } };
      await recordAuditEvent(tx, {
        atMs: nowMs,
        systemUser,
        action: 'treasury withdraw',
        ...change,
      });
      return moveProofsToWithdrawal(tx, withdrawal, ys);
    }));
  if (!isWithdrawn) {
    return { outcome: 'conflict' };
  }
  const leftSat = sumAmounts(stored) - amountSat;
  return { outcome: 'token', id, token: encodeToken(mintUrl, proofs), amountSat, leftSat };
}

/** Returns the token of an earlier withdrawal, which may have been redeemed; null if the id is unknown. */
export async function readWithdrawalToken(
  { db, sealer }: TreasuryContext,
  id: string,
): Promise<{ token: string; amountSat: number } | null> {
  const withdrawal = await findWithdrawal(db, id);
  if (withdrawal === undefined) {
    return null;
  }
  const { sealedProofs, mintUrl, amountSat } = withdrawal;
  const proofs = await requireSealer(sealer).open(`token ${id}`, sealedProofs);
  return { token: encodeToken(mintUrl, proofs as Proof[]), amountSat };
}

/** Seals each proof for its own row of the treasury. */
export async function sealProofs(
  sealer: Sealer,
  mintUrl: string,
  proofs: readonly Proof[],
  expiresAtMs: number | null = null,
): Promise<SealedProof[]> {
  const identifiedProofs = await mapInSlices(proofs, (proof) => ({ proof, y: computeY(proof) }));
  return await Promise.all(
    identifiedProofs.map(async ({ proof, y }) => {
      const sealed = await sealer.seal(`treasury proof ${y}`, proof);
      return { y, mintUrl, amountSat: proof.amount, expiresAtMs, sealed };
    }),
  );
}

export async function openProof(sealer: Sealer, { y, sealed }: Pick<SealedProof, 'y' | 'sealed'>) {
  return (await sealer.open(`treasury proof ${y}`, sealed)) as Proof;
}

function requireSealer(sealer: Sealer | null): Sealer {
  if (sealer === null) {
    throw new OperatorError(MISSING_SECRET);
  }
  return sealer;
}

/** Returns why the treasury secret cannot open the stored ecash; null if it can, or if nothing is stored. */
export async function findTreasuryProblem(sealer: Sealer | null, db: Db): Promise<string | null> {
  const activeKeyId = await readActiveTreasuryKeyId(db);
  const isRightSecret = sealer !== null && (activeKeyId === null || activeKeyId === sealer.keyId);
  if (isRightSecret || !(await needsTreasurySecret(db))) {
    return null;
  }
  return sealer === null
    ? MISSING_SECRET
    : `TREASURY_SECRET: is not the secret that sealed the stored ecash (its key is ${sealer.keyId}, the ecash needs ${activeKeyId}). Set the secret that sealed the ecash, or the ecash is lost.`;
}

const MISSING_SECRET =
  'TREASURY_SECRET: is missing, but the stored ecash needs it. Set it or, if it was generated, restore the file treasury-secret in DATA_DIR from a backup. Without it, the ecash is lost.';

/** Selects proofs that add up to an amount or, if none do, to the nearest lower one. Selects all if it is null. */
function selectProofs<T extends { amount: number }>(
  largestFirst: readonly T[],
  amountSat: number | null,
): T[] {
  // Taking the largest first finds every possible sum, because the amounts of proofs are powers of two.
  const selected: T[] = [];
  let remainingSat = amountSat ?? Number.POSITIVE_INFINITY;
  for (const proof of largestFirst) {
    if (proof.amount <= remainingSat) {
      selected.push(proof);
      remainingSat -= proof.amount;
    }
  }
  return selected;
}
