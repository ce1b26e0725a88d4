import type { Proof } from '@cashu/cashu-ts';
import { yOf } from '../../src/ecash/proofs.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import type { Manner } from './plan.ts';

/** A token that somebody pays with. */
export interface StormToken {
  text: string;
  proofs: Proof[];
  /** Of its proofs (NUT-07). */
  ys: readonly string[];
  faceSat: number;
  /** Whether it is what the name costs, and was unspent when it was first given. */
  isGood: boolean;
  /** Whether it was spent elsewhere than here. */
  isSpentElsewhere: boolean;
}

/** What ends a wallet's asking. */
export interface FinalAnswer {
  status: 201 | 400 | 402 | 409;
  /** Of a refusal. */
  message: string;
}

/** One key that asks for one name with one token until it is told how that ended. */
export interface Claim {
  scene: Scene;
  buyer: TestWallet;
  name: string;
  token: StormToken;
  /** Null while it asks, and where it has given up. */
  answer: FinalAnswer | null;
  hasGivenUp: boolean;
}

/** A group of claims that have to do with each other. */
export interface Scene {
  number: number;
  manner: Manner;
  claims: Claim[];
}

/** All that buyers did and were told, against which the service is held. */
export class Truth {
  readonly scenes: Scene[] = [];
  readonly #tokens: StormToken[] = [];

  get tokens(): readonly StormToken[] {
    return this.#tokens;
  }

  get claims(): Claim[] {
    return this.scenes.flatMap(({ claims }) => claims);
  }

  addToken(text: string, proofs: Proof[], isGood: boolean): StormToken {
    const token = {
      text,
      proofs,
      ys: proofs.map(yOf),
      faceSat: proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0),
      isGood,
      isSpentElsewhere: false,
    };
    this.#tokens.push(token);
    return token;
  }
}

/** How messages speak of a claim: names are public, keys and tokens are not needed. */
export function describeClaim({ scene, name, answer, hasGivenUp }: Claim): string {
  const end = hasGivenUp ? 'given up' : (answer?.status ?? 'not answered');
  const message = answer !== null && answer.message !== '' ? `, "${answer.message}"` : '';
  return `scene ${scene.number} (${scene.manner}), ${name}: ${end}${message}`;
}
