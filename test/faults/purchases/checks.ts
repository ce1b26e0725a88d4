import { normalizeProofAmounts } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import type { TestMint } from '../../../demo/test-mint.ts';
import type { Database } from '../../../src/database/database.ts';
import type { Proof } from '../../../src/mints/ecash.ts';
import { computeY } from '../../../src/usernames/ecash/proofs.ts';
import { openProof, Sealer } from '../../../src/usernames/sealer.ts';
import type { EcashPayer } from '../../helpers/recipients/ecash-payer.ts';
import type { ProcessStorm } from '../storm.ts';
import {
  type BuyerSimulation,
  describeAttempt,
  type PaymentToken,
  type PurchaseAttempt,
  SCENARIOS,
} from './buyer-simulation.ts';

export const CHECKS = {
  redeemedTokens: 'every redeemed token bought a name for the key that paid',
  paidNames: 'the owner of every name paid for it',
  singleOwner: 'no key has two names, and every process reports the owners in the database',
  unspentTokens: 'a rejected token is unspent, unless it paid for a purchase',
  rejections: 'every rejection has a valid reason',
  soldNames: 'every scenario run sells the expected number of names',
  finalResponses: 'no final response contradicts another response or the database',
  answered: 'every buyer who kept retrying got a final response',
  treasury: 'the treasury has all redeemed value minus mint fees, and the mint accepts its proofs',
  recovered: 'no purchase stays open',
};

export interface DatabaseSnapshot {
  completedPurchases: CompletedPurchase[];
  usernames: { name: string; pubkey: string }[];
  treasuryProofs: { y: string; amount_sat: number; sealed: string }[];
}

interface CompletedPurchase {
  pubkey: string;
  name: string;
  secretHashes: string[];
}

export interface PurchaseObservations extends ProcessStorm {
  buyers: BuyerSimulation;
  mint: TestMint;
  payer: EcashPayer;
  treasurySecret: string;
  snapshot: DatabaseSnapshot;
}

const TREASURY_PROOFS_PER_SWAP = 100;

const CONCURRENT_REQUESTS_PER_PROCESS = 8;

export async function readDatabaseSnapshot({ db }: Database): Promise<DatabaseSnapshot> {
  const purchasesById = new Map<string, CompletedPurchase>();
  const purchaseProofs = await sql<{ id: string; pubkey: string; name: string; hash: string }>`
    select purchase.id, purchase.pubkey, purchase.name, proof.secret_hash as hash
    from username_purchases as purchase
    join username_purchase_proofs as proof on proof.purchase = purchase.id
    where purchase.state = 'completed'
  `.execute(db);
  for (const { id, pubkey, name, hash } of purchaseProofs.rows) {
    const purchase = purchasesById.get(id) ?? { pubkey, name, secretHashes: [] };
    purchasesById.set(id, purchase);
    purchase.secretHashes.push(hash);
  }
  const usernames = await sql<DatabaseSnapshot['usernames'][number]>`
    select name, pubkey from usernames where status = 'in_use'
  `.execute(db);
  const treasuryProofs = await sql<DatabaseSnapshot['treasuryProofs'][number]>`
    select y, amount_sat, proof as sealed from treasury_proofs
  `.execute(db);
  return {
    completedPurchases: [...purchasesById.values()],
    usernames: usernames.rows,
    treasuryProofs: treasuryProofs.rows,
  };
}

export async function fetchOwnersFromProcesses(
  { deployment, request }: ProcessStorm,
  { attempts }: BuyerSimulation,
): Promise<Map<string, unknown>[]> {
  const fetchOwners = async (origin: string) => {
    const owners = new Map<string, unknown>();
    const remainingNames = new Set(attempts.map(({ name }) => name)).values();
    const fetchRemaining = async () => {
      for (const name of remainingNames) {
        const path = `/.well-known/nostr.json?name=${name}`;
        const response = await request(origin, path);
        const owner = response?.body.names?.[name];
        if (owner !== undefined) {
          owners.set(name, owner);
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_REQUESTS_PER_PROCESS }, fetchRemaining));
    return owners;
  };
  return Promise.all(deployment.processes.map(({ origin }) => fetchOwners(origin)));
}

export function checkOwners(
  { snapshot, checkRecorder }: PurchaseObservations,
  ownersByProcess: Map<string, unknown>[],
): void {
  const { usernames } = snapshot;
  if (new Set(usernames.map(({ pubkey }) => pubkey)).size !== usernames.length) {
    checkRecorder.addProblem('singleOwner', 'a key has two names');
  }
  for (const owners of ownersByProcess) {
    const wrong = usernames.filter(({ name, pubkey }) => owners.get(name) !== pubkey);
    if (wrong.length > 0 || owners.size !== usernames.length) {
      checkRecorder.addProblem(
        'singleOwner',
        `a process reports ${owners.size} names, the database has ${usernames.length}; ${wrong.length} owners differ`,
      );
    }
  }
}

export async function checkPurchases(
  observations: PurchaseObservations,
): Promise<{ redeemedTokenCount: number; treasuryBalanceSat: number }> {
  const redeemedTokens = checkRedeemedTokens(observations);
  checkPaidNames(observations, redeemedTokens);
  for (const attempt of observations.buyers.attempts) {
    checkFinalResponse(observations, attempt, redeemedTokens);
  }
  checkScenarioRuns(observations);
  return {
    redeemedTokenCount: redeemedTokens.size,
    treasuryBalanceSat: await checkTreasury(observations, redeemedTokens),
  };
}

function checkRedeemedTokens({
  buyers,
  mint,
  snapshot,
  checkRecorder,
}: PurchaseObservations): Set<PaymentToken> {
  const redeemedTokens = new Set<PaymentToken>();
  for (const token of buyers.tokens) {
    const spentYs = token.ys.filter((y) => mint.getProofState(y) === 'SPENT');
    if (spentYs.length === 0) {
      continue;
    }
    redeemedTokens.add(token);
    const winner = findWinningAttempt(buyers, snapshot, token);
    const boughtName = winner !== null && ownsRequestedName(snapshot, winner);
    if (spentYs.length < token.ys.length || !boughtName) {
      const attempts = buyers.attempts.filter((attempt) => attempt.token === token);
      checkRecorder.addProblem('redeemedTokens', attempts.map(describeAttempt).join('; '));
    }
  }
  return redeemedTokens;
}

function checkPaidNames(
  { buyers, snapshot, checkRecorder }: PurchaseObservations,
  redeemedTokens: ReadonlySet<PaymentToken>,
): void {
  const { usernames, completedPurchases } = snapshot;
  const nameAndKey = ({ name, pubkey }: { name: string; pubkey: string }) => `${name} ${pubkey}`;
  const purchased = new Set(completedPurchases.map(nameAndKey));
  for (const username of usernames.filter((username) => !purchased.has(nameAndKey(username)))) {
    checkRecorder.addProblem('paidNames', `the owner of ${username.name} did not pay for it`);
  }
  const redeemed = new Set([...redeemedTokens].flatMap(({ secretHashes }) => secretHashes));
  const requested = new Set(
    buyers.attempts.map(({ name, buyer }) => nameAndKey({ name, pubkey: buyer.pubkey })),
  );
  for (const purchase of completedPurchases) {
    if (!purchase.secretHashes.every((hash) => redeemed.has(hash))) {
      const problem = `${purchase.name} was sold for a token that was not redeemed`;
      checkRecorder.addProblem('paidNames', problem);
    }
    if (!requested.has(nameAndKey(purchase))) {
      const problem = `${purchase.name} was sold to a key that did not request it`;
      checkRecorder.addProblem('paidNames', problem);
    }
  }
}

function checkFinalResponse(
  { buyers, checkRecorder, snapshot }: PurchaseObservations,
  attempt: PurchaseAttempt,
  redeemedTokens: ReadonlySet<PaymentToken>,
): void {
  const { finalResponse, token, name, scenarioRun } = attempt;
  const addProblem = (check: keyof typeof CHECKS) =>
    checkRecorder.addProblem(check, describeAttempt(attempt));
  if (finalResponse === null) {
    if (scenarioRun.scenario !== 'disconnect') {
      addProblem('answered');
    }
    return;
  }
  if (finalResponse.status === 201) {
    if (!ownsRequestedName(snapshot, attempt)) {
      addProblem('finalResponses');
    }
    return;
  }
  const winner = findWinningAttempt(buyers, snapshot, token);
  if (winner?.name === name && winner.buyer === attempt.buyer) {
    addProblem('finalResponses');
  }
  if (redeemedTokens.has(token) && winner === null) {
    addProblem('unspentTokens');
  }
  const { status, message } = finalResponse;
  const hasValidReason =
    (status === 402 && /another purchase|spent/.test(message) && winner !== null) ||
    (status === 402 && /costs/.test(message) && scenarioRun.scenario === 'underpaid') ||
    (status === 409 && snapshot.usernames.some((username) => username.name === name));
  if (!hasValidReason) {
    addProblem('rejections');
  }
}

function checkScenarioRuns({ buyers, checkRecorder }: PurchaseObservations): void {
  for (const { number, scenario, attempts } of buyers.scenarioRuns) {
    const { expectedNames } = SCENARIOS[scenario];
    const successful = attempts.filter(({ finalResponse }) => finalResponse?.status === 201);
    const sold = new Set(successful.map(({ name, buyer }) => `${name} ${buyer.pubkey}`)).size;
    if (expectedNames !== null && sold !== expectedNames) {
      const problem = `scenario run ${number} (${scenario}): ${sold} names sold, not ${expectedNames}`;
      checkRecorder.addProblem('soldNames', problem);
    }
    if (scenario === 'repeatedRequest' && successful.length !== attempts.length) {
      const problem = `scenario run ${number}: repetitions of one request got different responses`;
      checkRecorder.addProblem('finalResponses', problem);
    }
  }
}

async function checkTreasury(
  { payer, snapshot, treasurySecret, checkRecorder }: PurchaseObservations,
  redeemedTokens: ReadonlySet<PaymentToken>,
): Promise<number> {
  const sum = (amountsSat: number[]) => amountsSat.reduce((total, sat) => total + sat, 0);
  const feeSat = ({ proofs }: PaymentToken) => payer.wallet.getFeesForProofs(proofs).toNumber();
  const expectedSat = sum([...redeemedTokens].map((token) => token.amountSat - feeSat(token)));
  const balanceSat = sum(snapshot.treasuryProofs.map(({ amount_sat }) => amount_sat));
  if (balanceSat !== expectedSat) {
    checkRecorder.addProblem('treasury', `the balance is ${balanceSat} sat, not ${expectedSat}`);
  }
  const sealer = new Sealer(treasurySecret);
  const decrypted: Proof[] = [];
  for (const stored of snapshot.treasuryProofs) {
    const proof = await openProof(sealer, stored);
    decrypted.push(proof);
    if (computeY(proof) !== stored.y || proof.amount !== stored.amount_sat) {
      const problem = `the stored Y or amount of a proof of ${proof.amount} sat is wrong`;
      checkRecorder.addProblem('treasury', problem);
    }
  }
  const proofs = normalizeProofAmounts(decrypted);
  for (let index = 0; index < proofs.length; index += TREASURY_PROOFS_PER_SWAP) {
    const batch = proofs.slice(index, index + TREASURY_PROOFS_PER_SWAP);
    await payer.wallet.receive(batch).catch((error: unknown) => {
      checkRecorder.addProblem('treasury', `the mint rejects the proofs: ${String(error)}`);
    });
  }
  return balanceSat;
}

function findWinningAttempt(
  { attempts }: BuyerSimulation,
  { completedPurchases }: DatabaseSnapshot,
  token: PaymentToken,
): PurchaseAttempt | null {
  const [hash = ''] = token.secretHashes;
  const purchase = completedPurchases.find(({ secretHashes }) => secretHashes.includes(hash));
  if (purchase?.secretHashes.length !== token.secretHashes.length) {
    return null;
  }
  const isWinner = (attempt: PurchaseAttempt) =>
    attempt.token === token &&
    attempt.name === purchase.name &&
    attempt.buyer.pubkey === purchase.pubkey;
  return attempts.find(isWinner) ?? null;
}

function ownsRequestedName({ usernames }: DatabaseSnapshot, attempt: PurchaseAttempt): boolean {
  return usernames.some(
    ({ name, pubkey }) => name === attempt.name && pubkey === attempt.buyer.pubkey,
  );
}
