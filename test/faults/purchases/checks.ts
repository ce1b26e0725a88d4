import { normalizeProofAmounts } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import type { TestMint } from '../../../demo/test-mint.ts';
import type { Database } from '../../../src/database/database.ts';
import type { Proof } from '../../../src/mints/ecash.ts';
import { yOf } from '../../../src/usernames/ecash/proofs.ts';
import { Sealer } from '../../../src/usernames/ecash/seal.ts';
import { openProof } from '../../../src/usernames/treasury.ts';
import type { EcashPayer } from '../../helpers/ecash-payer.ts';
import { ask } from '../client.ts';
import type { Storm } from '../storm.ts';
import { type Buyers, type Claim, describeClaim, MANNERS, type StormToken } from './buyers.ts';

export const CHECKS = {
  swallowed: 'every redeemed token bought a name, and the key that paid has that name',
  unpaid: 'every name was paid for by the key that has it',
  single: 'no key has two names, no name has two owners, and all processes agree',
  unspent: 'a buyer that did not get the name can still spend the token',
  explained: 'every refusal of a token has its reason, and every contested name has one winner',
  kept: 'no final answer contradicts another one or the final state',
  answered: 'every buyer that kept asking got a final answer',
  treasury: 'the treasury holds what was redeemed minus the mint fees, and the mint accepts it',
  settled: 'no purchase is left open',
};

/** The final content of the database. */
export interface Journal {
  /** Purchases that succeeded, with the proofs of their token (NUT-07). */
  done: { pubkey: string; name: string; ys: string[] }[];
  names: { name: string; pubkey: string }[];
  /** The operator's proofs, sealed. */
  treasury: { y: string; amount_sat: number; proof: string }[];
}

/** What the checks compare. */
export interface Evidence extends Storm {
  buyers: Buyers;
  mint: TestMint;
  payer: EcashPayer;
  treasurySecret: string;
  journal: Journal;
}

/** A mint accepts this many proofs at a time. */
const PROOFS_AT_A_TIME = 100;

const ASKERS = 8;

export async function readJournal({ db }: Database): Promise<Journal> {
  const done = new Map<string, Journal['done'][number]>();
  const paid = await sql<{ id: string; pubkey: string; name: string; y: string }>`
    select purchase.id, purchase.pubkey, purchase.name, proof.y
    from username_purchases as purchase
    join username_purchase_proofs as proof on proof.purchase = purchase.id
    where purchase.state = 'done'
  `.execute(db);
  for (const { id, pubkey, name, y } of paid.rows) {
    const purchase = done.get(id) ?? { pubkey, name, ys: [] };
    done.set(id, purchase);
    purchase.ys.push(y);
  }
  const names = await sql<Journal['names'][number]>`
    select name, pubkey from usernames where status = 'in_use'
  `.execute(db);
  const treasury = await sql<Journal['treasury'][number]>`
    select y, amount_sat, proof from treasury_proofs
  `.execute(db);
  return { done: [...done.values()], names: names.rows, treasury: treasury.rows };
}

/** Asks every process who has each name (NIP-05). @returns the owners by name, for each process */
export async function readOwners(
  { site, findings }: Storm,
  { claims }: Buyers,
): Promise<Map<string, unknown>[]> {
  const readFrom = async (origin: string) => {
    const owners = new Map<string, unknown>();
    const waiting = new Set(claims.map(({ name }) => name)).values();
    const asker = async () => {
      for (const name of waiting) {
        const answer = await ask(findings, origin, `/.well-known/nostr.json?name=${name}`);
        const owner = answer?.body.names?.[name];
        if (owner !== undefined) {
          owners.set(name, owner);
        }
      }
    };
    await Promise.all(Array.from({ length: ASKERS }, asker));
    return owners;
  };
  return Promise.all(site.processes.map(({ origin }) => readFrom(origin)));
}

/** Compares the mint, the database and the answers. */
export async function checkAll(
  evidence: Evidence,
): Promise<{ redeemed: number; earnedSat: number }> {
  const redeemed = checkRedeemed(evidence);
  checkPaid(evidence, redeemed);
  for (const claim of evidence.buyers.claims) {
    checkAnswer(evidence, claim, redeemed);
  }
  checkWinners(evidence);
  return { redeemed: redeemed.size, earnedSat: await checkTreasury(evidence, redeemed) };
}

/** @param views the owners by name, as each process reports them */
export function checkOwners({ journal, findings }: Evidence, views: Map<string, unknown>[]): void {
  if (new Set(journal.names.map(({ pubkey }) => pubkey)).size !== journal.names.length) {
    findings.note('single', 'a key uses two names');
  }
  for (const owners of views) {
    const wrong = journal.names.filter(({ name, pubkey }) => owners.get(name) !== pubkey);
    if (wrong.length > 0 || owners.size !== journal.names.length) {
      findings.note('single', `a process has ${owners.size} names, ${wrong.length} of them wrong`);
    }
  }
}

/** @returns the tokens of which the mint redeemed a part: only the service had them */
function checkRedeemed({ buyers, mint, journal, findings }: Evidence): Set<StormToken> {
  const redeemed = new Set<StormToken>();
  for (const token of buyers.tokens) {
    const spent = token.ys.filter((y) => mint.stateOf(y) === 'SPENT');
    if (spent.length === 0) {
      continue;
    }
    redeemed.add(token);
    const claim = boughtBy(buyers, journal, token);
    if (spent.length < token.ys.length || claim === null || !hasName(journal, claim)) {
      const claims = buyers.claims.filter((each) => each.token === token).map(describeClaim);
      findings.note('swallowed', claims.join('; '));
    }
  }
  return redeemed;
}

function checkPaid({ buyers, journal, findings }: Evidence, redeemed: Set<StormToken>): void {
  const keyOf = ({ name, pubkey }: { name: string; pubkey: string }) => `${name} ${pubkey}`;
  const paid = new Set(journal.done.map(keyOf));
  for (const owned of journal.names.filter((each) => !paid.has(keyOf(each)))) {
    findings.note('unpaid', `${owned.name} was not paid for by the key that has it`);
  }
  const redeemedYs = new Set([...redeemed].flatMap(({ ys }) => ys));
  const asked = new Set(buyers.claims.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
  for (const purchase of journal.done) {
    if (!purchase.ys.every((y) => redeemedYs.has(y))) {
      findings.note('unpaid', `${purchase.name} was sold for a token that was not redeemed`);
    }
    if (!asked.has(keyOf(purchase))) {
      findings.note('unpaid', `${purchase.name} was sold to a key that never asked for it`);
    }
  }
}

/** Compares a buyer's final answer with what is true. */
function checkAnswer(evidence: Evidence, claim: Claim, redeemed: ReadonlySet<StormToken>): void {
  const { buyers, findings, journal } = evidence;
  const { answer, token, name, scene } = claim;
  if (answer === null) {
    if (scene.manner !== 'leaving') {
      findings.note('answered', describeClaim(claim));
    }
    return;
  }
  const winner = boughtBy(buyers, journal, token);
  const isBought = winner?.name === name && winner.buyer === claim.buyer;
  const isKept = answer.status === 201 ? hasName(journal, claim) : !isBought;
  if (!isKept) {
    findings.note('kept', describeClaim(claim));
  }
  if (answer.status === 201) {
    return;
  }
  if (redeemed.has(token) && winner === null) {
    findings.note('unspent', describeClaim(claim));
  }
  const { status, message } = answer;
  const isExplained =
    (status === 402 && /another purchase|spent/.test(message) && winner !== null) ||
    (status === 402 && /costs/.test(message) && scene.manner === 'short') ||
    (status === 409 && journal.names.some((kept) => kept.name === name));
  if (!isExplained) {
    findings.note('explained', describeClaim(claim));
  }
}

function checkWinners({ buyers, findings }: Evidence): void {
  for (const { number, manner, claims } of buyers.scenes) {
    const { wins } = MANNERS[manner];
    const won = claims.filter(({ answer }) => answer?.status === 201);
    const names = new Set(won.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
    if (wins !== null && names.size !== wins) {
      findings.note('explained', `scene ${number} (${manner}): ${names.size} names, not ${wins}`);
    }
    if (manner === 'impatient' && won.length !== claims.length) {
      findings.note('kept', `scene ${number}: one purchase got different answers`);
    }
  }
}

/** @returns the sats in the treasury */
async function checkTreasury(
  { payer, journal, treasurySecret, findings }: Evidence,
  redeemed: ReadonlySet<StormToken>,
): Promise<number> {
  const sum = (sats: number[]) => sats.reduce((total, sat) => total + sat, 0);
  const feeSat = ({ proofs }: StormToken) => payer.wallet.getFeesForProofs(proofs).toNumber();
  const expectedSat = sum([...redeemed].map((token) => token.faceSat - feeSat(token)));
  const keptSat = sum(journal.treasury.map(({ amount_sat }) => amount_sat));
  if (keptSat !== expectedSat) {
    findings.note('treasury', `${keptSat} sat are kept, not ${expectedSat}`);
  }
  const sealer = new Sealer(treasurySecret);
  const opened: Proof[] = [];
  for (const kept of journal.treasury) {
    const proof = await openProof(sealer, kept);
    opened.push(proof);
    if (yOf(proof) !== kept.y || proof.amount !== kept.amount_sat) {
      findings.note('treasury', `a proof of ${proof.amount} sat is stored as something else`);
    }
  }
  const proofs = normalizeProofAmounts(opened);
  for (let index = 0; index < proofs.length; index += PROOFS_AT_A_TIME) {
    const some = proofs.slice(index, index + PROOFS_AT_A_TIME);
    await payer.wallet.receive(some).catch((error: unknown) => {
      findings.note('treasury', `the mint rejects what is kept: ${String(error)}`);
    });
  }
  return keptSat;
}

/** The claim for which a token was redeemed, according to the database. */
function boughtBy({ claims }: Buyers, journal: Journal, token: StormToken): Claim | null {
  const purchase = journal.done.find(({ ys }) => ys.includes(token.ys[0] ?? ''));
  if (purchase?.ys.length !== token.ys.length) {
    return null;
  }
  const isOf = ({ name, buyer }: Claim) =>
    name === purchase.name && buyer.pubkey === purchase.pubkey;
  return claims.find((claim) => claim.token === token && isOf(claim)) ?? null;
}

function hasName({ names }: Journal, claim: Claim): boolean {
  return names.some(({ name, pubkey }) => name === claim.name && pubkey === claim.buyer.pubkey);
}
