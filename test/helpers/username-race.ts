import type { Proof } from '@cashu/cashu-ts';
import { expect } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { EcashPayer } from './ecash-payer.ts';
import { buyUsername, ownerOf } from './username-buyer.ts';
import { type ApiAnswer, TestWallet } from './wallet.ts';

/** Of each key. */
const TOKENS = 20;

/** The mint runs in this process: larger requests would block it until the wallet times out. */
const PROOFS_AT_A_TIME = 20;

/** A purchase: the buyer, the proof that pays and the response. */
interface RaceEntry {
  wallet: TestWallet;
  proof: Proof;
  answer: ApiAnswer;
}

/**
 * Lets each of several keys buy the same name with twenty tokens at the same time, one request for each
 * token, spread evenly over the processes.
 *
 * @param race.priceSat a power of two, so that a token is one proof
 * @param bases the public origins of the processes
 */
export async function raceForName(
  mint: TestMint,
  bases: readonly string[],
  name: string,
  { priceSat, keys }: { priceSat: number; keys: number },
): Promise<RaceEntry[]> {
  const payer = await EcashPayer.open(mint);
  const proofs = await singleProofs(payer, mint, keys * TOKENS, priceSat);
  const wallets = Array.from({ length: keys }, () => new TestWallet(bases[0] ?? ''));
  const entries = proofs.map((proof, index) => {
    const wallet = wallets[index % keys] as TestWallet;
    const base = bases[Math.floor(index / keys) % bases.length] as string;
    // Checking the evidence (NUT-12) would take most of the time.
    const { dleq: _left, ...bare } = proof;
    return { wallet: wallet.at(base), proof, token: payer.encode([bare]) };
  });
  return await Promise.all(
    entries.map(async ({ wallet, proof, token }) => ({
      wallet,
      proof,
      answer: await buyUsername(wallet, name, token),
    })),
  );
}

/**
 * Expects that one key won, that all requests were answered accordingly, that one token was redeemed and
 * all others can be spent, and that all processes return the winner.
 */
export async function expectOneWinner(
  mint: TestMint,
  bases: readonly string[],
  name: string,
  entries: readonly RaceEntry[],
): Promise<void> {
  const winner = await ownerOf(bases[0] ?? '', name);
  expect(winner).toBeDefined();
  for (const base of bases) {
    expect(await ownerOf(base, name)).toBe(winner);
  }
  const won = entries.filter(({ wallet }) => wallet.pubkey === winner);
  expect(won).toHaveLength(TOKENS);
  expect(new Set(won.map(resultOf))).toEqual(new Set(['201 ']));

  const lost = entries.filter(({ wallet }) => wallet.pubkey !== winner);
  expect(new Set(lost.map(resultOf))).toEqual(new Set(['409 This username is already taken.']));

  const { wallet: atMint } = await EcashPayer.open(mint);
  const states = await atMint.checkProofsStates(entries.map(({ proof }) => proof));
  const spent = entries.filter((_entry, index) => states[index]?.state !== 'UNSPENT');
  expect(spent.map(({ wallet }) => wallet.pubkey)).toEqual([winner]);
  for (let index = 0; index < lost.length; index += PROOFS_AT_A_TIME) {
    const some = lost.slice(index, index + PROOFS_AT_A_TIME).map(({ proof }) => proof);
    expect(await atMint.receive(some)).not.toHaveLength(0);
  }
}

function resultOf({ answer: { status, body } }: RaceEntry): string {
  return `${status} ${body.message ?? ''}`;
}

/** Mints proofs of one amount. */
async function singleProofs(
  payer: EcashPayer,
  mint: TestMint,
  count: number,
  amountSat: number,
): Promise<Proof[]> {
  const proofs: Proof[] = [];
  while (proofs.length < count) {
    const amounts = Array(Math.min(PROOFS_AT_A_TIME, count - proofs.length)).fill(amountSat);
    const sumSat = amounts.length * amountSat;
    const quote = await payer.wallet.createMintQuoteBolt11(sumSat);
    mint.pay(quote.request);
    const minted = payer.wallet.ops.mintBolt11(sumSat, quote.quote).asRandom(amounts);
    proofs.push(...(await minted.run()));
  }
  return proofs;
}
