import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { type Client, pause } from '../faults/client.ts';
import type { Site } from '../faults/site.ts';
import { TestWallet } from '../helpers/wallet.ts';
import type { PurchaseMint } from './mint.ts';
import { type PlannedScene, planScene } from './plan.ts';
import type { Claim, FinalAnswer, Scene, StormToken, Truth } from './truth.ts';

/** What a name costs in a storm. */
export const PRICE_SAT = 8;

const PATH = '/api/v2/user/username';

/** Some tokens are worth more than the name: face values between the price and this. */
const HIGHEST_FACE_SAT = 16;

/** Between two requests of one claim: the first pause is up to this, each later one up to twice that. */
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 8_000;

/** Who is gone before the answer is gone after this at most: longer than most purchases take. */
const LONGEST_PATIENCE_MS = 800;

/** Who spends a token elsewhere does so at most so long after going away. */
const LONGEST_RECLAIM_MS = 2_000;

/** The requests for one thing come together, or so soon one after the other. */
const TOGETHER_MS = 60;

const MOST_CONTESTERS = 4;
const CLICKS = 3;

/** Every so many scenes the mint has a new keyset. */
const SCENES_PER_KEYSET = 120;

/** A signature is good for a minute (NIP-98), and making one costs the storm more than a request. */
const SIGNATURE_USED_FOR_MS = 20_000;

/** Statuses that a wallet takes for the end of it. */
const FINAL_STATUSES: readonly number[] = [201, 400, 402, 409];

/** What {@link Buyers} need. */
interface BuyersParts {
  site: Site;
  mint: PurchaseMint;
  truth: Truth;
  client: Client;
  dice: Dice;
  /** Sends them home before their time. */
  signal: AbortSignal;
}

/** The buyers of a storm: sensible wallets and less sensible ones. */
export class Buyers {
  readonly #parts: BuyersParts;
  /** What is asked for at each origin at the moment. */
  readonly #underWay = new Map<string, Set<Claim>>();
  /** By key and origin. */
  readonly #signatures = new Map<string, { value: string; madeAtMs: number }>();
  readonly #counts = { requests: 0, lost: 0, refused: 0 };

  constructor(parts: BuyersParts) {
    this.#parts = parts;
  }

  /** Requests in all, those without an answer, and those that were answered 5xx. */
  get counts(): Readonly<{ requests: number; lost: number; refused: number }> {
    return this.#counts;
  }

  /** The claims whose requests a process has got, and not answered yet. */
  underWayAt(origin: string): readonly Claim[] {
    return [...(this.#underWay.get(origin) ?? [])];
  }

  /**
   * Begins scene after scene until the signal.
   *
   * @returns when all of them are over
   */
  async run(scenesPerSecond: number, enough: AbortSignal): Promise<void> {
    const { dice, mint } = this.#parts;
    const playing: Promise<void>[] = [];
    for (let number = 1; !enough.aborted; number += 1) {
      if (number % SCENES_PER_KEYSET === 0) {
        await mint.rotate();
      }
      const scene = this.#play(planScene(dice, number));
      // Thrown when all are awaited.
      scene.catch(() => undefined);
      playing.push(scene);
      await pause(1000 / scenesPerSecond, enough);
    }
    await Promise.all(playing);
  }

  async #play({ number, manner, dice }: PlannedScene): Promise<void> {
    const scene: Scene = { number, manner, claims: [] };
    this.#parts.truth.scenes.push(scene);
    const name = `storm${number}`;
    const claim = (buyer: TestWallet, token: StormToken, as = name): Claim => {
      const added = { scene, buyer, name: as, token, answer: null, hasGivenUp: false };
      scene.claims.push(added);
      return added;
    };
    const ask = (...claims: Claim[]) =>
      Promise.all(claims.map((each, index) => this.#ask(each, dice.fork(`claim ${index}`))));
    const buyer = this.#newBuyer();
    const goodToken = () => this.#newToken(PRICE_SAT + Math.floor(dice.roll() * HIGHEST_FACE_SAT));

    switch (manner) {
      case 'plain':
        await ask(claim(buyer, await goodToken()));
        break;
      case 'impatient': {
        const token = await goodToken();
        await ask(...times(CLICKS, () => claim(buyer, token)));
        break;
      }
      case 'contest': {
        const count = 2 + Math.floor(dice.roll() * (MOST_CONTESTERS - 1));
        const tokens = await Promise.all(times(count, goodToken));
        await ask(...tokens.map((token) => claim(this.#newBuyer(), token)));
        break;
      }
      case 'twoTokens': {
        const tokens = await Promise.all(times(2, goodToken));
        await ask(...tokens.map((token) => claim(buyer, token)));
        break;
      }
      case 'twoNames': {
        const token = await goodToken();
        await ask(...['a', 'b'].map((letter) => claim(buyer, token, name + letter)));
        break;
      }
      case 'twoKeys': {
        const token = await goodToken();
        await ask(...['a', 'b'].map((letter) => claim(this.#newBuyer(), token, name + letter)));
        break;
      }
      case 'sharedToken': {
        const token = await goodToken();
        await ask(...times(2, () => claim(this.#newBuyer(), token)));
        break;
      }
      case 'secondName':
        await ask(claim(buyer, await goodToken(), `${name}a`));
        await ask(claim(buyer, await goodToken(), `${name}b`));
        break;
      case 'short':
        await ask(claim(buyer, await this.#newToken(PRICE_SAT - 1)));
        break;
      case 'spent': {
        const token = await goodToken();
        token.isGood = false;
        token.isSpentElsewhere = await this.#parts.mint.spend(token.proofs);
        await ask(claim(buyer, token));
        break;
      }
      case 'goneForGood':
        await this.#askAndLeave(claim(buyer, await goodToken()), dice);
        break;
      case 'reclaiming': {
        const token = await goodToken();
        await this.#askAndLeave(claim(buyer, token), dice);
        await pause(dice.between(0, LONGEST_RECLAIM_MS), this.#parts.signal);
        token.isSpentElsewhere = await this.#parts.mint.spend(token.proofs);
        break;
      }
    }
  }

  /** Asks one process or the other, as a sensible wallet does, until it is told how it ended. */
  async #ask(claim: Claim, dice: Dice): Promise<void> {
    const { signal } = this.#parts;
    await pause(dice.between(0, TOGETHER_MS), signal);
    for (let longestMs = FIRST_RETRY_MS; !signal.aborted; longestMs *= 2) {
      claim.answer = await this.#request(claim, dice, signal);
      if (claim.answer !== null) {
        return;
      }
      await pause(dice.between(0, Math.min(longestMs, LONGEST_RETRY_MS)), signal);
    }
  }

  /** Asks once, and does not wait for the answer for long. */
  async #askAndLeave(claim: Claim, dice: Dice): Promise<void> {
    claim.hasGivenUp = true;
    const patience = AbortSignal.timeout(Math.floor(dice.between(0, LONGEST_PATIENCE_MS)));
    claim.answer = await this.#request(
      claim,
      dice,
      AbortSignal.any([patience, this.#parts.signal]),
    );
  }

  /** @returns null where there was no answer, or none to rely on */
  async #request(claim: Claim, dice: Dice, signal: AbortSignal): Promise<FinalAnswer | null> {
    const { site, client } = this.#parts;
    const { buyer, name, token } = claim;
    const origin = site.anyOrigin(dice);
    const here = this.#underWay.get(origin) ?? new Set();
    this.#underWay.set(origin, here.add(claim));
    this.#counts.requests += 1;
    const answer = await client.ask(origin, PATH, {
      method: 'POST',
      headers: {
        authorization: this.#authorization(buyer, origin),
        'content-type': 'application/json',
        'x-cashu': token.text,
      },
      body: JSON.stringify({ username: name }),
      signal,
    });
    here.delete(claim);
    if (answer === null || !FINAL_STATUSES.includes(answer.status)) {
      this.#counts[answer === null ? 'lost' : 'refused'] += 1;
      return null;
    }
    const { status, body } = answer;
    return { status: status as FinalAnswer['status'], message: body.message ?? '' };
  }

  #authorization(buyer: TestWallet, origin: string): string {
    const key = `${buyer.pubkey} ${origin}`;
    const known = this.#signatures.get(key);
    if (known !== undefined && Date.now() - known.madeAtMs < SIGNATURE_USED_FOR_MS) {
      return known.value;
    }
    const value = buyer.at(origin).sign(PATH, 'POST');
    this.#signatures.set(key, { value, madeAtMs: Date.now() });
    return value;
  }

  #newBuyer(): TestWallet {
    return new TestWallet(this.#parts.site.processes[0]?.origin ?? '');
  }

  async #newToken(faceSat: number): Promise<StormToken> {
    const { mint, truth } = this.#parts;
    const proofs = await mint.proofs(faceSat);
    // Evidence takes the service's time and decides nothing here: every other token has none (NUT-12).
    const isWithEvidence = truth.tokens.length % 2 === 0;
    const given = isWithEvidence ? proofs : proofs.map(({ dleq: _left, ...proof }) => proof);
    return truth.addToken(mint.encode(given), proofs, faceSat >= PRICE_SAT);
  }
}

function times<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make);
}
