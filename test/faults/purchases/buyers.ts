import type { Dice } from '../../../demo/test-mint/dice.ts';
import { TestWallet } from '../../helpers/wallet.ts';
import { ask, pause } from '../client.ts';
import type { Storm } from '../storm.ts';
import type { PurchaseMint } from './mint.ts';
import type { Claim, FinalAnswer, Scene, StormToken, Truth } from './truth.ts';

/** What a name costs. */
export const PRICE_SAT = 8;

const PATH = '/api/v2/user/username';

/** Tokens are worth the price and up to this much more. */
const HIGHEST_CHANGE_SAT = 16;

/** Pauses between the requests of a claim double, up to the longest. */
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 8_000;

/** A buyer who leaves does so after this time at most: longer than most purchases take. */
const LONGEST_PATIENCE_MS = 800;
const LONGEST_RECLAIM_MS = 2_000;

/** Concurrent requests are sent within this time. */
const TOGETHER_MS = 60;

const SCENES_PER_KEYSET = 120;

/** Responses after which a wallet does not retry. */
const FINAL_STATUSES: readonly number[] = [201, 400, 402, 409];

/** What a group of buyers does. */
interface Manner {
  /** Of all scenes. */
  share: number;
  /** How many names they get in the end; null: it depends. */
  wins: number | null;
  /** The buyer and the token of each claim, by number. */
  buyers: readonly number[];
  tokens: readonly number[];
  /** Of the name of each claim, if they differ. */
  suffixes?: readonly string[];
  /** One claim begins when the one before has ended. */
  isInTurn?: boolean;
  token?: 'short' | 'spent';
  /** The buyer disconnects early, and may spend the token elsewhere. */
  leaves?: 'for good' | 'and reclaims';
}

const ONE = { buyers: [0], tokens: [0] };

export const MANNERS = {
  plain: { share: 0.2, wins: 1, ...ONE },
  /** One key sends each request several times, to all processes. */
  impatient: { share: 0.12, wins: 1, buyers: [0, 0, 0], tokens: [0, 0, 0] },
  contest: { share: 0.14, wins: 1, buyers: [0, 1, 2], tokens: [0, 1, 2] },
  twoTokens: { share: 0.08, wins: 1, buyers: [0, 0], tokens: [0, 1] },
  twoNames: { share: 0.08, wins: 1, buyers: [0, 0], tokens: [0, 0], suffixes: ['a', 'b'] },
  twoKeys: { share: 0.06, wins: 1, buyers: [0, 1], tokens: [0, 0], suffixes: ['a', 'b'] },
  sharedToken: { share: 0.05, wins: 1, buyers: [0, 1], tokens: [0, 0] },
  secondName: {
    ...{ share: 0.07, wins: 2, buyers: [0, 0], tokens: [0, 1], suffixes: ['a', 'b'] },
    isInTurn: true,
  },
  short: { share: 0.04, wins: 0, ...ONE, token: 'short' },
  spent: { share: 0.04, wins: 0, ...ONE, token: 'spent' },
  goneForGood: { share: 0.07, wins: null, ...ONE, leaves: 'for good' },
  reclaiming: { share: 0.05, wins: null, ...ONE, leaves: 'and reclaims' },
} as const satisfies Record<string, Manner>;

export type MannerName = keyof typeof MANNERS;

const NAMES = Object.keys(MANNERS) as MannerName[];

/** The buyers of a storm. */
export class Buyers {
  /** Requests that were sent, not answered, or answered with 5xx. */
  readonly counts = { requests: 0, lost: 0, refused: 0 };
  readonly #storm: Storm;
  readonly #mint: PurchaseMint;
  readonly #truth: Truth;
  /** Aborts when buyers must stop asking. */
  readonly #signal: AbortSignal;
  /** Claims without an answer yet, by origin. */
  readonly #pending = new Map<string, Set<Claim>>();

  constructor(storm: Storm, mint: PurchaseMint, truth: Truth, signal: AbortSignal) {
    this.#storm = storm;
    this.#mint = mint;
    this.#truth = truth;
    this.#signal = signal;
  }

  /** The claims that a process has received and not answered. */
  pendingAt(origin: string): readonly Claim[] {
    return [...(this.#pending.get(origin) ?? [])];
  }

  /** Begins scenes at this rate until the signal. Resolves when all of them are over. */
  async run(scenesPerSecond: number, enough: AbortSignal): Promise<void> {
    const playing: Promise<void>[] = [];
    do {
      const number = playing.length + 1;
      if (number % SCENES_PER_KEYSET === 0) {
        await this.#mint.rotate();
      }
      playing.push(this.#play(number));
      // Rejections surface when all are awaited.
      playing.at(-1)?.catch(() => undefined);
    } while (await pause(1000 / scenesPerSecond, enough));
    await Promise.all(playing);
  }

  async #play(number: number): Promise<void> {
    const dice = this.#storm.dice.fork(`scene ${number}`);
    const name = mannerOf(dice, number);
    const manner: Manner = MANNERS[name];
    const scene: Scene = { number, manner: name, claims: [] };
    this.#truth.scenes.push(scene);
    const origin = this.#storm.site.processes[0]?.origin ?? '';
    const buyers = times(manner.buyers, () => new TestWallet(origin));
    const tokens = await Promise.all(times(manner.tokens, () => this.#newToken(dice, manner)));
    scene.claims = manner.buyers.map((buyer, index) => ({
      scene,
      buyer: buyers[buyer] as TestWallet,
      token: tokens[manner.tokens[index] ?? 0] as StormToken,
      name: `storm${number}${manner.suffixes?.[index] ?? ''}`,
      answer: null,
      hasGivenUp: manner.leaves !== undefined,
    }));
    const asking = scene.claims.map((claim, index) => ({ claim, dice: dice.fork(`${index}`) }));
    if (manner.leaves !== undefined) {
      await this.#askAndLeave(asking[0]?.claim as Claim, dice, manner.leaves);
    } else if (manner.isInTurn) {
      for (const each of asking) {
        await this.#askUntilAnswered(each.claim, each.dice);
      }
    } else {
      await Promise.all(asking.map((each) => this.#askUntilAnswered(each.claim, each.dice)));
    }
  }

  async #askUntilAnswered(claim: Claim, dice: Dice): Promise<void> {
    await pause(dice.between(0, TOGETHER_MS), this.#signal);
    for (let longestMs = FIRST_RETRY_MS; !this.#signal.aborted; longestMs *= 2) {
      claim.answer = await this.#request(claim, dice, this.#signal);
      if (claim.answer !== null) {
        return;
      }
      await pause(dice.between(0, Math.min(longestMs, LONGEST_RETRY_MS)), this.#signal);
    }
  }

  async #askAndLeave(claim: Claim, dice: Dice, leaves: Manner['leaves']): Promise<void> {
    const patience = AbortSignal.timeout(Math.floor(dice.between(0, LONGEST_PATIENCE_MS)));
    const signal = AbortSignal.any([patience, this.#signal]);
    claim.answer = await this.#request(claim, dice, signal);
    if (leaves === 'and reclaims') {
      await pause(dice.between(0, LONGEST_RECLAIM_MS), this.#signal);
      claim.token.isSpentElsewhere = await this.#mint.spend(claim.token.proofs);
    }
  }

  /** @returns null if there was no answer, or a temporary error */
  async #request(claim: Claim, dice: Dice, signal: AbortSignal): Promise<FinalAnswer | null> {
    const origin = this.#storm.site.anyOrigin(dice);
    const pending = this.#pending.get(origin) ?? new Set();
    this.#pending.set(origin, pending.add(claim));
    this.counts.requests += 1;
    const answer = await ask(this.#storm.findings, origin, PATH, {
      method: 'POST',
      headers: {
        authorization: claim.buyer.at(origin).sign(PATH, 'POST'),
        'content-type': 'application/json',
        'x-cashu': claim.token.text,
      },
      body: JSON.stringify({ username: claim.name }),
      signal,
    });
    pending.delete(claim);
    if (answer === null || !FINAL_STATUSES.includes(answer.status)) {
      this.counts[answer === null ? 'lost' : 'refused'] += 1;
      return null;
    }
    return { status: answer.status, message: answer.body.message ?? '' };
  }

  async #newToken(dice: Dice, { token: kind }: Manner): Promise<StormToken> {
    const faceSat =
      kind === 'short' ? PRICE_SAT - 1 : PRICE_SAT + Math.floor(dice.roll() * HIGHEST_CHANGE_SAT);
    const proofs = await this.#mint.proofs(faceSat);
    // Every other token lacks the DLEQ proofs (NUT-12), which may not matter.
    const hasDleq = this.#truth.tokens.length % 2 === 0;
    const given = hasDleq ? proofs : proofs.map(({ dleq: _, ...proof }) => proof);
    const token = this.#truth.addToken(this.#mint.encode(given), proofs, kind === undefined);
    if (kind === 'spent') {
      token.isSpentElsewhere = await this.#mint.spend(proofs);
    }
    return token;
  }
}

/** Makes one for each number that occurs. */
function times<T>(numbers: readonly number[], make: () => T): T[] {
  return Array.from({ length: Math.max(...numbers) + 1 }, make);
}

/** One scene of each manner comes first, so that none is missing. */
function mannerOf(dice: Dice, number: number): MannerName {
  let left = dice.roll();
  return (
    NAMES[number - 1] ??
    NAMES.find((name) => {
      left -= MANNERS[name].share;
      return left < 0;
    }) ??
    'plain'
  );
}
