import type { Proof } from '@cashu/cashu-ts';
import type { Dice } from '../../../demo/test-mint/dice.ts';
import { yOf } from '../../../src/usernames/ecash/proofs.ts';
import type { EcashPayer } from '../../helpers/ecash-payer.ts';
import { TestWallet } from '../../helpers/wallet.ts';
import { ask, pause } from '../client.ts';
import type { Storm } from '../storm.ts';

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

/** Concurrent requests are sent within this time. */
const TOGETHER_MS = 60;

/** Responses after which a wallet does not retry. */
const FINAL_STATUSES: readonly number[] = [201, 400, 402, 409];

/** A token that a buyer pays with. */
export interface StormToken {
  text: string;
  proofs: Proof[];
  /** Of its proofs (NUT-07). */
  ys: readonly string[];
  faceSat: number;
}

/** One key that asks for one name with one token until it gets a final answer. */
export interface Claim {
  scene: Scene;
  buyer: TestWallet;
  name: string;
  token: StormToken;
  /** What ended its retries. Null while it asks, and if it has given up. */
  answer: { status: number; message: string } | null;
}

/** A group of claims that concern each other. */
export interface Scene {
  number: number;
  manner: MannerName;
  claims: Claim[];
}

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
}

const ONE = { buyers: [0], tokens: [0] };

export const MANNERS = {
  plain: { share: 0.25, wins: 1, ...ONE },
  /** One key sends each request several times, to all processes. */
  impatient: { share: 0.15, wins: 1, buyers: [0, 0, 0], tokens: [0, 0, 0] },
  contest: { share: 0.16, wins: 1, buyers: [0, 1, 2], tokens: [0, 1, 2] },
  twoTokens: { share: 0.09, wins: 1, buyers: [0, 0], tokens: [0, 1] },
  twoNames: { share: 0.09, wins: 1, buyers: [0, 0], tokens: [0, 0], suffixes: ['a', 'b'] },
  twoKeys: { share: 0.07, wins: 1, buyers: [0, 1], tokens: [0, 0], suffixes: ['a', 'b'] },
  sharedToken: { share: 0.06, wins: 1, buyers: [0, 1], tokens: [0, 0] },
  /** The token is worth less than the price. */
  short: { share: 0.04, wins: 0, ...ONE },
  /** The buyer disconnects early and never asks again. */
  leaving: { share: 0.09, wins: null, ...ONE },
} as const satisfies Record<string, Manner>;

export type MannerName = keyof typeof MANNERS;

const NAMES = Object.keys(MANNERS) as MannerName[];

/** The buyers of a storm, and what they were answered. */
export class Buyers {
  readonly scenes: Scene[] = [];
  readonly tokens: StormToken[] = [];
  /** Requests that were sent, not answered, or answered with 5xx. */
  readonly counts = { requests: 0, lost: 0, refused: 0 };
  readonly #storm: Storm;
  readonly #payer: EcashPayer;
  /** Aborts when buyers must stop asking. */
  readonly #signal: AbortSignal;
  /** Claims without an answer yet, by origin. */
  readonly #pending = new Map<string, Set<Claim>>();

  constructor(storm: Storm, payer: EcashPayer, signal: AbortSignal) {
    this.#storm = storm;
    this.#payer = payer;
    this.#signal = signal;
  }

  get claims(): Claim[] {
    return this.scenes.flatMap(({ claims }) => claims);
  }

  /** The claims that a process has received and not answered. */
  pendingAt(origin: string): readonly Claim[] {
    return [...(this.#pending.get(origin) ?? [])];
  }

  /** Begins scenes at this rate until the signal. Resolves when all of them are over. */
  async run(scenesPerSecond: number, enough: AbortSignal): Promise<void> {
    const playing: Promise<void>[] = [];
    do {
      playing.push(this.#play(playing.length + 1));
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
    this.scenes.push(scene);
    const origin = this.#storm.site.processes[0]?.origin ?? '';
    const buyers = times(manner.buyers, () => new TestWallet(origin));
    const tokens = await Promise.all(times(manner.tokens, () => this.#newToken(dice, name)));
    scene.claims = manner.buyers.map((buyer, index) => ({
      scene,
      buyer: buyers[buyer] as TestWallet,
      token: tokens[manner.tokens[index] ?? 0] as StormToken,
      name: `storm${number}${manner.suffixes?.[index] ?? ''}`,
      answer: null,
    }));
    await Promise.all(scene.claims.map((claim, index) => this.#ask(claim, dice.fork(`${index}`))));
  }

  /** Asks until there is a final answer, or only once and not for long. */
  async #ask(claim: Claim, dice: Dice): Promise<void> {
    if (claim.scene.manner === 'leaving') {
      const patience = AbortSignal.timeout(Math.floor(dice.between(0, LONGEST_PATIENCE_MS)));
      await this.#request(claim, dice, AbortSignal.any([patience, this.#signal]));
      return;
    }
    await pause(dice.between(0, TOGETHER_MS), this.#signal);
    for (let longestMs = FIRST_RETRY_MS; !this.#signal.aborted; longestMs *= 2) {
      await this.#request(claim, dice, this.#signal);
      if (claim.answer !== null) {
        return;
      }
      await pause(dice.between(0, Math.min(longestMs, LONGEST_RETRY_MS)), this.#signal);
    }
  }

  /** Sets the claim's answer, unless there is none or a temporary error. */
  async #request(claim: Claim, dice: Dice, signal: AbortSignal): Promise<void> {
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
    if (answer !== null && FINAL_STATUSES.includes(answer.status)) {
      claim.answer = { status: answer.status, message: answer.body.message ?? '' };
    } else {
      this.counts[answer === null ? 'lost' : 'refused'] += 1;
    }
  }

  async #newToken(dice: Dice, manner: MannerName): Promise<StormToken> {
    const faceSat =
      manner === 'short' ? PRICE_SAT - 1 : PRICE_SAT + Math.floor(dice.roll() * HIGHEST_CHANGE_SAT);
    const proofs = await this.#payer.proofs(faceSat);
    // Every other token lacks the DLEQ proofs (NUT-12), which may not matter.
    const hasDleq = this.tokens.length % 2 === 0;
    const text = this.#payer.encode(
      hasDleq ? proofs : proofs.map(({ dleq: _, ...proof }) => proof),
    );
    const token = { text, proofs, ys: proofs.map(yOf), faceSat };
    this.tokens.push(token);
    return token;
  }
}

/** Names are public; keys and tokens are not shown. */
export function describeClaim({ scene, name, answer }: Claim): string {
  const end = answer === null ? 'not answered' : `${answer.status} ${answer.message}`;
  return `scene ${scene.number} (${scene.manner}), ${name}: ${end}`;
}

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
