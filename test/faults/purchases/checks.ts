import { normalizeProofAmounts, type Proof as WalletProof } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import type { Database } from '../../../src/database/database.ts';
import type { Proof } from '../../../src/domain/ecash.ts';
import { yOf } from '../../../src/ecash/proofs.ts';
import { Sealer } from '../../../src/ecash/seal.ts';
import { openProof } from '../../../src/usecases/treasury.ts';
import { ask } from '../client.ts';
import type { Storm } from '../storm.ts';
import { MANNERS } from './buyers.ts';
import type { PurchaseMint } from './mint.ts';
import { type Claim, describeClaim, type StormToken, type Truth } from './truth.ts';

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
  names: { name: string; pubkey: string | null; status: string }[];
  /** The operator's proofs, sealed. */
  treasury: { y: string; amount_sat: number; proof: string }[];
}

/** Who has which name, as one process reports it. */
interface View {
  process: string;
  /** By NIP-05: the key of a name. */
  owners: Map<string, string>;
  /** Names that payers can pay. */
  payable: Set<string>;
  /** By user info: the name of a key. */
  names: Map<string, string>;
}

/** What the checks compare. */
export interface Evidence extends Storm {
  truth: Truth;
  mint: PurchaseMint;
  treasurySecret: string;
  journal: Journal;
  views: readonly View[];
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
    select name, pubkey, status from usernames
  `.execute(db);
  const treasury = await sql<Journal['treasury'][number]>`
    select y, amount_sat, proof from treasury_proofs
  `.execute(db);
  return { done: [...done.values()], names: names.rows, treasury: treasury.rows };
}

/** Asks every process about all names and keys. */
export async function readViews({ site, findings }: Storm, truth: Truth) {
  const views: View[] = [];
  for (const { name: process, origin } of site.processes) {
    const view: View = { process, owners: new Map(), payable: new Set(), names: new Map() };
    const waiting = new Map(
      truth.claims.map(({ name, buyer }) => [`${name} ${buyer.pubkey}`, { name, buyer }]),
    ).values();
    const asker = async () => {
      for (const { name, buyer } of waiting) {
        const owners = await ask(findings, origin, `/.well-known/nostr.json?name=${name}`);
        const owner = owners?.body.names?.[name];
        if (typeof owner === 'string') {
          view.owners.set(name, owner);
        }
        const offer = await ask(findings, origin, `/.well-known/lnurlp/${name}`);
        if (offer?.body.tag === 'payRequest') {
          view.payable.add(name);
        }
        const path = '/api/v2/user/info';
        const headers = { authorization: buyer.at(origin).sign(path) };
        const own = (await ask(findings, origin, path, { headers }))?.body.data?.user.name;
        if (typeof own === 'string') {
          view.names.set(buyer.pubkey, own);
        }
      }
    };
    await Promise.all(Array.from({ length: ASKERS }, asker));
    views.push(view);
  }
  return views;
}

/** Compares the mint, the database and the names that processes report. */
export async function checkAll(
  evidence: Evidence,
): Promise<{ redeemed: number; earnedSat: number }> {
  const redeemed = await redeemedTokens(evidence);
  checkPaid(evidence, redeemed);
  checkViews(evidence);
  for (const claim of evidence.truth.claims) {
    checkAnswer(evidence, claim, redeemed);
  }
  checkWinners(evidence);
  return { redeemed: redeemed.size, earnedSat: await checkTreasury(evidence, redeemed) };
}

/** Tokens that are spent at the mint, and not by their owner: only the service had them as well. */
async function redeemedTokens(evidence: Evidence): Promise<Set<StormToken>> {
  const { truth, mint, findings } = evidence;
  const spent = await mint.spentOf(truth.tokens.flatMap(({ proofs }) => proofs));
  const secrets = new Set(spent.map(({ secret }) => secret));
  const redeemed = new Set<StormToken>();
  for (const token of truth.tokens) {
    const count = token.proofs.filter(({ secret }) => secrets.has(secret)).length;
    if (count === 0 || token.isSpentElsewhere) {
      continue;
    }
    redeemed.add(token);
    const claim = boughtBy(evidence, token);
    if (count < token.proofs.length || claim === null || !hasName(evidence, claim)) {
      const claims = truth.claims.filter((each) => each.token === token).map(describeClaim);
      findings.note('swallowed', claims.join('; '));
    }
  }
  return redeemed;
}

/** Every name, in use or reserved, was paid for by its owner, with a token that was redeemed. */
function checkPaid({ truth, views, journal, findings }: Evidence, redeemed: Set<StormToken>): void {
  const paid = new Set(journal.done.map(({ pubkey, name }) => `${name} ${pubkey}`));
  const had = [
    ...views.flatMap(({ owners }) => [...owners]),
    ...journal.names.map(({ name, pubkey }) => [name, pubkey] as const),
  ];
  for (const [name, pubkey] of had) {
    if (!paid.has(`${name} ${pubkey}`)) {
      findings.note('unpaid', `${name} was not paid for by the key that has it`);
    }
  }
  const redeemedYs = new Set([...redeemed].flatMap(({ ys }) => ys));
  const asked = new Set(truth.claims.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
  for (const { name, pubkey, ys } of journal.done) {
    if (!ys.every((y) => redeemedYs.has(y))) {
      findings.note('unpaid', `${name} was sold for a token that was not redeemed`);
    }
    if (!asked.has(`${name} ${pubkey}`)) {
      findings.note('unpaid', `${name} was sold to a key that never asked for it`);
    }
  }
}

function checkViews({ views, journal, findings }: Evidence): void {
  const inUse = journal.names.filter(({ status }) => status === 'in_use');
  if (new Set(inUse.map(({ pubkey }) => pubkey)).size !== inUse.length) {
    findings.note('single', 'a key uses two names');
  }
  for (const { process, owners, payable, names } of views) {
    for (const { name, pubkey } of inUse) {
      if (owners.get(name) !== pubkey || !payable.has(name) || names.get(pubkey ?? '') !== name) {
        findings.note('single', `${process} does not give ${name} to the key that has it`);
      }
    }
    const counts = [owners.size, payable.size, names.size];
    if (counts.some((count) => count !== inUse.length)) {
      findings.note('single', `${process}: ${counts} names, and ${inUse.length} in use`);
    }
  }
}

/** Compares a buyer's final answer with what is true. */
function checkAnswer(evidence: Evidence, claim: Claim, redeemed: ReadonlySet<StormToken>): void {
  const { findings, journal } = evidence;
  const { answer, token, name, buyer } = claim;
  if (answer === null) {
    if (!claim.hasGivenUp) {
      findings.note('answered', describeClaim(claim));
    }
    return;
  }
  const winner = boughtBy(evidence, token);
  const isBought = winner?.name === name && winner.buyer === buyer;
  const isKept = answer.status === 201 ? hasName(evidence, claim) : !isBought;
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
    (status === 402 && /another purchase/.test(message) && winner !== null) ||
    (status === 402 && /spent/.test(message) && (token.isSpentElsewhere || winner !== null)) ||
    (status === 402 && /costs/.test(message) && !token.isGood) ||
    (status === 409 && journal.names.some((kept) => kept.name === name));
  if (!isExplained) {
    findings.note('explained', describeClaim(claim));
  }
}

function checkWinners({ truth, findings }: Evidence): void {
  for (const { number, manner, claims } of truth.scenes) {
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
  { mint, journal, treasurySecret, findings }: Evidence,
  redeemed: ReadonlySet<StormToken>,
): Promise<number> {
  const sum = (sats: number[]) => sats.reduce((total, sat) => total + sat, 0);
  const expectedSat = sum(
    [...redeemed].map(({ faceSat, proofs }) => faceSat - mint.feeSat(proofs)),
  );
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
  const proofs: WalletProof[] = normalizeProofAmounts(opened);
  for (let index = 0; index < proofs.length; index += PROOFS_AT_A_TIME) {
    await mint.redeem(proofs.slice(index, index + PROOFS_AT_A_TIME)).catch((error: unknown) => {
      findings.note('treasury', `the mint rejects what is kept: ${String(error)}`);
    });
  }
  return keptSat;
}

/** The claim for which a token was redeemed, according to the database. */
function boughtBy({ truth, journal }: Evidence, token: StormToken): Claim | null {
  const purchase = journal.done.find(({ ys }) => ys.includes(token.ys[0] ?? ''));
  if (purchase?.ys.length !== token.ys.length) {
    return null;
  }
  const isOf = ({ name, buyer }: Claim) =>
    name === purchase.name && buyer.pubkey === purchase.pubkey;
  return truth.claims.find((claim) => claim.token === token && isOf(claim)) ?? null;
}

/** Whether a key uses a name, or left it for another name that it uses. */
function hasName({ views, journal }: Evidence, { name, buyer: { pubkey } }: Claim): boolean {
  const kept = journal.names.find((each) => each.name === name);
  return (
    kept?.pubkey === pubkey &&
    views.every(({ owners, names }) => {
      const used = names.get(pubkey);
      const isRight = used === name || (kept.status === 'released' && used !== undefined);
      return isRight && owners.get(used) === pubkey;
    })
  );
}
