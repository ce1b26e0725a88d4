import { normalizeProofAmounts, type Proof as WalletProof } from '@cashu/cashu-ts';
import type { Proof } from '../../src/domain/ecash.ts';
import { yOf } from '../../src/ecash/proofs.ts';
import { Sealer } from '../../src/ecash/seal.ts';
import { openProof } from '../../src/usecases/keep-earnings.ts';
import type { Findings } from '../faults/findings.ts';
import type { CheckName } from './findings.ts';
import type { DonePurchase, KeptName, KeptProof } from './journal.ts';
import type { PurchaseMint } from './mint.ts';
import type { OutsideView } from './outside.ts';
import type { Manner } from './plan.ts';
import { type Claim, describeClaim, type StormToken, type Truth } from './truth.ts';

/** What a check looks at, and where it notes what is wrong. */
export interface Evidence {
  truth: Truth;
  mint: PurchaseMint;
  views: readonly OutsideView[];
  done: readonly DonePurchase[];
  names: readonly KeptName[];
  treasury: readonly KeptProof[];
  treasurySecret: string;
  findings: Findings<CheckName>;
}

/** How many different names a scene's buyers must have got in the end; absent: it depends. */
const NAMES_WON: Partial<Record<Manner, number>> = {
  plain: 1,
  impatient: 1,
  contest: 1,
  twoTokens: 1,
  twoNames: 1,
  twoKeys: 1,
  sharedToken: 1,
  secondName: 2,
  short: 0,
  spent: 0,
};

/** A mint takes so many proofs at a time, and more than ever are needed here. */
const PROOFS_AT_A_TIME = 100;

/** Holds the mint's word, the journal, and the names as everybody sees them against each other. */
export async function checkAll(
  evidence: Evidence,
): Promise<{ redeemed: number; earnedSat: number }> {
  const redeemed = await redeemedTokens(evidence);
  checkRedeemed(evidence, redeemed);
  checkPaid(evidence, redeemed);
  checkViews(evidence);
  for (const claim of evidence.truth.claims) {
    checkAnswer(evidence, claim, redeemed);
  }
  checkWinners(evidence);
  return { redeemed: redeemed.size, earnedSat: await checkTreasury(evidence, redeemed) };
}

/** What was spent at the mint, and not by its owner elsewhere: the service alone had it besides. */
async function redeemedTokens({ truth, mint, findings }: Evidence): Promise<Set<StormToken>> {
  const redeemed = new Set<StormToken>();
  const spent = new Set(
    (await mint.spentOf(truth.tokens.flatMap(({ proofs }) => proofs))).map(({ secret }) => secret),
  );
  for (const token of truth.tokens) {
    const count = token.proofs.filter(({ secret }) => spent.has(secret)).length;
    if (count > 0 && count < token.proofs.length) {
      findings.note('swallowed', `${describeToken(truth, token)}: a part of the token is spent`);
    }
    if (count > 0 && !token.isSpentElsewhere) {
      redeemed.add(token);
    }
  }
  return redeemed;
}

/** Every token that is gone bought a name, and that name is its buyer's. */
function checkRedeemed(evidence: Evidence, redeemed: ReadonlySet<StormToken>): void {
  const { truth, findings } = evidence;
  for (const token of redeemed) {
    const claim = boughtBy(evidence, token);
    if (claim === null) {
      findings.note('swallowed', `${describeToken(truth, token)}: the token bought nothing`);
    } else if (!hasName(evidence, claim)) {
      findings.note('swallowed', `${describeClaim(claim)}: bought, but its key does not have it`);
    }
  }
}

/** Every name, in use or in its grace, was paid for by its owner, with a token that is spent. */
function checkPaid(evidence: Evidence, redeemed: ReadonlySet<StormToken>): void {
  const { truth, views, done, names, findings } = evidence;
  const paid = new Set(done.map(({ pubkey, name }) => `${name} ${pubkey}`));
  const had = [
    ...views.flatMap(({ owners }) => [...owners]),
    ...names.map(({ name, pubkey }) => [name, pubkey] as const),
  ];
  for (const [name, pubkey] of had) {
    if (!paid.has(`${name} ${pubkey}`)) {
      findings.note('unpaid', `${name} was not paid for by the key that has it`);
    }
  }
  const redeemedYs = new Set([...redeemed].flatMap(({ ys }) => ys));
  for (const { name, ys } of done) {
    if (!ys.every((y) => redeemedYs.has(y))) {
      findings.note('unpaid', `${name} was given for a token that was not redeemed here`);
    }
  }
  const known = new Set(truth.claims.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
  for (const each of paid) {
    if (!known.has(each)) {
      findings.note('unpaid', `${each.split(' ')[0]} was bought by a key that never asked for it`);
    }
  }
}

/** All processes say the same by NIP-05, in discovery and to the keys, of no more than one name each. */
function checkViews({ truth, views, names, findings }: Evidence): void {
  const inUse = names.filter(({ status }) => status === 'in_use');
  for (const { process, owners, payable, names: own } of views) {
    for (const { name, pubkey } of inUse) {
      if (owners.get(name) !== pubkey || !payable.has(name) || own.get(pubkey ?? '') !== name) {
        findings.note('single', `${process} does not give ${name} to the key that has it`);
      }
    }
    for (const [what, count] of Object.entries({
      'names by NIP-05': owners.size,
      'names that can be paid': payable.size,
      'keys with a name': own.size,
    })) {
      if (count !== inUse.length) {
        findings.note('single', `${process}: ${count} ${what}, and ${inUse.length} in use`);
      }
    }
  }
  const keys = new Set(inUse.map(({ pubkey }) => pubkey));
  if (keys.size !== inUse.length) {
    findings.note('single', `${inUse.length} names are used by ${keys.size} keys`);
  }
  const asked = new Set(truth.claims.map(({ name }) => name));
  for (const { name } of names) {
    if (!asked.has(name)) {
      findings.note('single', `nobody asked for ${name}`);
    }
  }
}

/** Holds what a buyer was told against what is true. */
function checkAnswer(evidence: Evidence, claim: Claim, redeemed: ReadonlySet<StormToken>): void {
  const { findings } = evidence;
  const { answer, token } = claim;
  const winner = boughtBy(evidence, token);
  const isBought = winner !== null && winner.name === claim.name && winner.buyer === claim.buyer;
  if (answer === null) {
    if (!claim.hasGivenUp) {
      findings.note('answered', describeClaim(claim));
    }
    return;
  }
  if (answer.status === 201) {
    if (!hasName(evidence, claim)) {
      findings.note('kept', `${describeClaim(claim)}: its key does not have the name`);
    }
    return;
  }
  if (isBought) {
    findings.note('kept', `${describeClaim(claim)}: but its token bought this name`);
  }
  if (redeemed.has(token) && winner === null) {
    findings.note('unspent', `${describeClaim(claim)}: its token is spent`);
  }
  if (!isExplained(evidence, claim, winner)) {
    findings.note('explained', describeClaim(claim));
  }
}

/** Whether a refusal says what was really so. */
function isExplained({ names }: Evidence, claim: Claim, winner: Claim | null): boolean {
  const { answer, token, name } = claim;
  switch (answer?.status) {
    case 402:
      return (
        (/another purchase/.test(answer.message) && winner !== null) ||
        (/spent/.test(answer.message) && (token.isSpentElsewhere || winner !== null)) ||
        (/costs/.test(answer.message) && !token.isGood)
      );
    case 409:
      return names.some((kept) => kept.name === name);
    default:
      return false;
  }
}

function checkWinners({ truth, findings }: Evidence): void {
  for (const { number, manner, claims } of truth.scenes) {
    const expected = NAMES_WON[manner];
    const won = claims.filter(({ answer }) => answer?.status === 201);
    const names = new Set(won.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
    if (expected !== undefined && names.size !== expected) {
      const told = claims.map(({ answer }) => answer?.status ?? 'nothing').join(', ');
      const problem = `${names.size} names were won, not ${expected}; the answers: ${told}`;
      findings.note('explained', `scene ${number} (${manner}): ${problem}`);
    }
    if (manner === 'impatient' && won.length !== claims.length) {
      findings.note('kept', `scene ${number}: one purchase was answered differently`);
    }
  }
}

/** @returns what was earned, in sats */
async function checkTreasury(
  { mint, treasury, treasurySecret, findings }: Evidence,
  redeemed: ReadonlySet<StormToken>,
): Promise<number> {
  const tokens = [...redeemed];
  const expectedSat = tokens.reduce((sum, token) => sum + token.faceSat, 0);
  const feesSat = tokens.reduce((sum, { proofs }) => sum + mint.feeSat(proofs), 0);
  const keptSat = treasury.reduce((sum, { amount_sat }) => sum + amount_sat, 0);
  if (keptSat !== expectedSat - feesSat) {
    const problem = `${keptSat} sat are kept, and ${expectedSat} were redeemed for ${feesSat}`;
    findings.note('treasury', problem);
  }
  const sealer = new Sealer(treasurySecret);
  const opened: Proof[] = [];
  for (const kept of treasury) {
    const proof = await openProof(sealer, kept);
    opened.push(proof);
    if (yOf(proof) !== kept.y || proof.amount !== kept.amount_sat) {
      findings.note('treasury', `a proof of ${proof.amount} sat is kept as something else`);
    }
  }
  const proofs: WalletProof[] = normalizeProofAmounts(opened);
  const spent = await mint.spentOf(proofs);
  if (spent.length > 0) {
    findings.note('treasury', `${spent.length} of ${proofs.length} proofs are spent`);
  }
  for (let index = 0; index < proofs.length; index += PROOFS_AT_A_TIME) {
    await mint.redeem(proofs.slice(index, index + PROOFS_AT_A_TIME)).catch((error: unknown) => {
      findings.note('treasury', `the mint does not take what is kept: ${String(error)}`);
    });
  }
  return keptSat;
}

/** The claim that a token bought its name for, as the journal has it. */
function boughtBy({ truth, done }: Evidence, token: StormToken): Claim | null {
  const purchase = done.find(({ ys }) => ys.includes(token.ys[0] ?? ''));
  const isWhole = purchase?.ys.length === token.ys.length;
  const claims = truth.claims.filter((claim) => claim.token === token);
  return (
    claims.find(
      ({ name, buyer }) => isWhole && name === purchase.name && buyer.pubkey === purchase.pubkey,
    ) ?? null
  );
}

/** Whether a key uses a name, or left it for another that it uses and bought as well. */
function hasName({ views, names }: Evidence, { name, buyer: { pubkey } }: Claim): boolean {
  const kept = names.find((each) => each.name === name);
  if (kept?.pubkey !== pubkey) {
    return false;
  }
  return views.every(({ owners, names: own }) => {
    const isUsed = owners.get(name) === pubkey && own.get(pubkey) === name;
    const another = own.get(pubkey);
    const isLeft =
      kept.status === 'released' && another !== undefined && owners.get(another) === pubkey;
    return isUsed || isLeft;
  });
}

function describeToken(truth: Truth, token: StormToken): string {
  return truth.claims
    .filter((claim) => claim.token === token)
    .map(describeClaim)
    .join('; ');
}
