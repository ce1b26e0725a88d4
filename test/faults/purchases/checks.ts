import { normalizeProofAmounts } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import type { TestMint } from '../../../demo/test-mint.ts';
import type { Database } from '../../../src/database/database.ts';
import type { Proof } from '../../../src/mints/ecash.ts';
import { computeY } from '../../../src/usernames/ecash/proofs.ts';
import { openProof, Sealer } from '../../../src/usernames/ecash/sealer.ts';
import type { EcashPayer } from '../../helpers/ecash-payer.ts';
import type { Storm } from '../storm.ts';
import { tryRequest } from '../storm-client.ts';
import {
  type BuyerSimulation,
  describeAttempt,
  type PaymentToken,
  type PurchaseAttempt,
  SCENARIOS,
} from './buyer-simulation.ts';

export const CHECKS = {
  redeemedTokens: 'every redeemed token bought a name for the key that paid',
  paidNames: 'every name was paid for by its owner',
  singleOwner: 'no key has two names, no name has two owners, and all processes agree',
  unspentTokens: 'a buyer who did not get the name can still spend the token',
  explained: 'every rejection has a valid reason, and every contested name has one winner',
  finalResponses: 'no final response contradicts another one or the final state',
  answered: 'every buyer who kept retrying got a final response',
  treasury: 'the treasury has all redeemed value minus mint fees, and the mint accepts its proofs',
  recovered: 'no purchase is left open',
};

/** Content of the database after the storm. */
export interface DatabaseSnapshot {
  /** Successful purchases, with the Y of each proof of their token (NUT-07). */
  completedPurchases: { pubkey: string; name: string; ys: string[] }[];
  usernames: { name: string; pubkey: string }[];
  /** The operator's encrypted proofs. */
  treasuryProofs: { y: string; amount_sat: number; sealed: string }[];
}

export interface PurchaseObservations extends Storm {
  buyers: BuyerSimulation;
  mint: TestMint;
  payer: EcashPayer;
  treasurySecret: string;
  snapshot: DatabaseSnapshot;
}

/** Proofs per swap request when the mint verifies the treasury. */
const PROOFS_PER_REQUEST = 100;

const CONCURRENT_READERS = 8;

export async function readSnapshot({ db }: Database): Promise<DatabaseSnapshot> {
  const purchases = new Map<string, DatabaseSnapshot['completedPurchases'][number]>();
  const purchaseProofs = await sql<{ id: string; pubkey: string; name: string; y: string }>`
    select purchase.id, purchase.pubkey, purchase.name, proof.y
    from username_purchases as purchase
    join username_purchase_proofs as proof on proof.purchase = purchase.id
    where purchase.state = 'completed'
  `.execute(db);
  for (const { id, pubkey, name, y } of purchaseProofs.rows) {
    const purchase = purchases.get(id) ?? { pubkey, name, ys: [] };
    purchases.set(id, purchase);
    purchase.ys.push(y);
  }
  const names = await sql<DatabaseSnapshot['usernames'][number]>`
    select name, pubkey from usernames where status = 'in_use'
  `.execute(db);
  const treasury = await sql<DatabaseSnapshot['treasuryProofs'][number]>`
    select y, amount_sat, proof as sealed from treasury_proofs
  `.execute(db);
  return {
    completedPurchases: [...purchases.values()],
    usernames: names.rows,
    treasuryProofs: treasury.rows,
  };
}

/** Reads the owner of each name from every process (NIP-05). @returns the owners by name, for each process */
export async function readOwners(
  { deployment, checkResults }: Storm,
  { attempts }: BuyerSimulation,
): Promise<Map<string, unknown>[]> {
  const readFrom = async (origin: string) => {
    const owners = new Map<string, unknown>();
    const names = new Set(attempts.map(({ name }) => name)).values();
    const readOwner = async () => {
      for (const name of names) {
        const response = await tryRequest(
          checkResults,
          origin,
          `/.well-known/nostr.json?name=${name}`,
        );
        const owner = response?.body.names?.[name];
        if (owner !== undefined) {
          owners.set(name, owner);
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_READERS }, readOwner));
    return owners;
  };
  return Promise.all(deployment.processes.map(({ origin }) => readFrom(origin)));
}

/** Compares the mint, the database and the buyers' responses. */
export async function checkPurchases(
  observations: PurchaseObservations,
): Promise<{ redeemed: number; earnedSat: number }> {
  const redeemed = checkRedeemed(observations);
  checkPaid(observations, redeemed);
  for (const attempt of observations.buyers.attempts) {
    checkFinalResponse(observations, attempt, redeemed);
  }
  checkWinnerCounts(observations);
  return { redeemed: redeemed.size, earnedSat: await checkTreasury(observations, redeemed) };
}

/** @param ownersByProcess the owners by name, as each process reports them */
export function checkOwners(
  { snapshot, checkResults }: PurchaseObservations,
  ownersByProcess: Map<string, unknown>[],
): void {
  if (new Set(snapshot.usernames.map(({ pubkey }) => pubkey)).size !== snapshot.usernames.length) {
    checkResults.addProblem('singleOwner', 'a key uses two names');
  }
  for (const owners of ownersByProcess) {
    const wrong = snapshot.usernames.filter(({ name, pubkey }) => owners.get(name) !== pubkey);
    if (wrong.length > 0 || owners.size !== snapshot.usernames.length) {
      checkResults.addProblem(
        'singleOwner',
        `a process has ${owners.size} names, ${wrong.length} of them wrong`,
      );
    }
  }
}

/** @returns the tokens of which at least one proof was spent. Only the service spends them. */
function checkRedeemed({
  buyers,
  mint,
  snapshot,
  checkResults,
}: PurchaseObservations): Set<PaymentToken> {
  const redeemed = new Set<PaymentToken>();
  for (const token of buyers.tokens) {
    const spent = token.ys.filter((y) => mint.proofState(y) === 'SPENT');
    if (spent.length === 0) {
      continue;
    }
    redeemed.add(token);
    const attempt = findPurchaseWith(buyers, snapshot, token);
    if (spent.length < token.ys.length || attempt === null || !hasName(snapshot, attempt)) {
      const attempts = buyers.attempts.filter((each) => each.token === token).map(describeAttempt);
      checkResults.addProblem('redeemedTokens', attempts.join('; '));
    }
  }
  return redeemed;
}

function checkPaid(
  { buyers, snapshot, checkResults }: PurchaseObservations,
  redeemed: Set<PaymentToken>,
): void {
  const keyOf = ({ name, pubkey }: { name: string; pubkey: string }) => `${name} ${pubkey}`;
  const paid = new Set(snapshot.completedPurchases.map(keyOf));
  for (const owned of snapshot.usernames.filter((each) => !paid.has(keyOf(each)))) {
    checkResults.addProblem('paidNames', `${owned.name} was not paid for by its owner`);
  }
  const redeemedYs = new Set([...redeemed].flatMap(({ ys }) => ys));
  const attempted = new Set(buyers.attempts.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
  for (const purchase of snapshot.completedPurchases) {
    if (!purchase.ys.every((y) => redeemedYs.has(y))) {
      checkResults.addProblem(
        'paidNames',
        `${purchase.name} was sold for a token that was not redeemed`,
      );
    }
    if (!attempted.has(keyOf(purchase))) {
      checkResults.addProblem(
        'paidNames',
        `${purchase.name} was sold to a key that did not request it`,
      );
    }
  }
}

/** Compares a buyer's final response with the final state. */
function checkFinalResponse(
  observations: PurchaseObservations,
  attempt: PurchaseAttempt,
  redeemed: ReadonlySet<PaymentToken>,
): void {
  const { buyers, checkResults, snapshot } = observations;
  const { finalResponse: response, token, name, scenarioRun } = attempt;
  if (response === null) {
    if (scenarioRun.scenario !== 'leaving') {
      checkResults.addProblem('answered', describeAttempt(attempt));
    }
    return;
  }
  const winner = findPurchaseWith(buyers, snapshot, token);
  const isBought = winner?.name === name && winner.buyer === attempt.buyer;
  const isTrue = response.status === 201 ? hasName(snapshot, attempt) : !isBought;
  if (!isTrue) {
    checkResults.addProblem('finalResponses', describeAttempt(attempt));
  }
  if (response.status === 201) {
    return;
  }
  if (redeemed.has(token) && winner === null) {
    checkResults.addProblem('unspentTokens', describeAttempt(attempt));
  }
  const { status, message } = response;
  const isExplained =
    (status === 402 && /another purchase|spent/.test(message) && winner !== null) ||
    (status === 402 && /costs/.test(message) && scenarioRun.scenario === 'short') ||
    (status === 409 && snapshot.usernames.some((owned) => owned.name === name));
  if (!isExplained) {
    checkResults.addProblem('explained', describeAttempt(attempt));
  }
}

function checkWinnerCounts({ buyers, checkResults }: PurchaseObservations): void {
  for (const { number, scenario, attempts } of buyers.scenarioRuns) {
    const { expectedWinners } = SCENARIOS[scenario];
    const won = attempts.filter(({ finalResponse: response }) => response?.status === 201);
    const names = new Set(won.map(({ name, buyer }) => `${name} ${buyer.pubkey}`));
    if (expectedWinners !== null && names.size !== expectedWinners) {
      checkResults.addProblem(
        'explained',
        `scenario run ${number} (${scenario}): ${names.size} names, not ${expectedWinners}`,
      );
    }
    if (scenario === 'impatient' && won.length !== attempts.length) {
      checkResults.addProblem(
        'finalResponses',
        `scenario run ${number}: one purchase got different responses`,
      );
    }
  }
}

/** @returns the balance of the treasury, in sats */
async function checkTreasury(
  { payer, snapshot, treasurySecret, checkResults }: PurchaseObservations,
  redeemed: ReadonlySet<PaymentToken>,
): Promise<number> {
  const sum = (sats: number[]) => sats.reduce((total, sat) => total + sat, 0);
  const feeSat = ({ proofs }: PaymentToken) => payer.wallet.getFeesForProofs(proofs).toNumber();
  const expectedSat = sum([...redeemed].map((token) => token.amountSat - feeSat(token)));
  const balanceSat = sum(snapshot.treasuryProofs.map(({ amount_sat }) => amount_sat));
  if (balanceSat !== expectedSat) {
    checkResults.addProblem('treasury', `the balance is ${balanceSat} sat, not ${expectedSat}`);
  }
  const sealer = new Sealer(treasurySecret);
  const opened: Proof[] = [];
  for (const stored of snapshot.treasuryProofs) {
    const proof = await openProof(sealer, stored);
    opened.push(proof);
    if (computeY(proof) !== stored.y || proof.amount !== stored.amount_sat) {
      checkResults.addProblem(
        'treasury',
        `the stored Y or amount of a proof of ${proof.amount} sat is wrong`,
      );
    }
  }
  const proofs = normalizeProofAmounts(opened);
  for (let index = 0; index < proofs.length; index += PROOFS_PER_REQUEST) {
    const some = proofs.slice(index, index + PROOFS_PER_REQUEST);
    await payer.wallet.receive(some).catch((error: unknown) => {
      checkResults.addProblem('treasury', `the mint rejects the proofs: ${String(error)}`);
    });
  }
  return balanceSat;
}

/** Returns the attempt for which a token was redeemed, according to the database. */
function findPurchaseWith(
  { attempts }: BuyerSimulation,
  snapshot: DatabaseSnapshot,
  token: PaymentToken,
): PurchaseAttempt | null {
  const purchase = snapshot.completedPurchases.find(({ ys }) => ys.includes(token.ys[0] ?? ''));
  if (purchase?.ys.length !== token.ys.length) {
    return null;
  }
  const isOf = ({ name, buyer }: PurchaseAttempt) =>
    name === purchase.name && buyer.pubkey === purchase.pubkey;
  return attempts.find((attempt) => attempt.token === token && isOf(attempt)) ?? null;
}

function hasName({ usernames: names }: DatabaseSnapshot, attempt: PurchaseAttempt): boolean {
  return names.some(({ name, pubkey }) => name === attempt.name && pubkey === attempt.buyer.pubkey);
}
