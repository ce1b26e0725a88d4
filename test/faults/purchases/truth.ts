import type { Proof } from '@cashu/cashu-ts';
import { yOf } from '../../../src/ecash/proofs.ts';
import type { TestWallet } from '../../helpers/wallet.ts';
import type { MannerName } from './buyers.ts';

/** A token that a buyer pays with. */
export interface StormToken {
  text: string;
  proofs: Proof[];
  /** Of its proofs (NUT-07). */
  ys: readonly string[];
  faceSat: number;
  /** Whether it was worth the price, and unspent, when it was first sent. */
  isGood: boolean;
  /** Whether its owner spent it elsewhere. */
  isSpentElsewhere: boolean;
}

/** What ends a wallet's retries. */
export interface FinalAnswer {
  status: number;
  /** Empty if it succeeded. */
  message: string;
}

/** One key that asks for one name with one token until it gets a final answer. */
export interface Claim {
  scene: Scene;
  buyer: TestWallet;
  name: string;
  token: StormToken;
  /** Null while it asks, and if it has given up. */
  answer: FinalAnswer | null;
  hasGivenUp: boolean;
}

/** A group of claims that concern each other. */
export interface Scene {
  number: number;
  manner: MannerName;
  claims: Claim[];
}

/** What buyers did and were answered, with which the service is compared. */
export class Truth {
  readonly scenes: Scene[] = [];
  readonly tokens: StormToken[] = [];

  get claims(): Claim[] {
    return this.scenes.flatMap(({ claims }) => claims);
  }

  addToken(text: string, proofs: Proof[], isGood: boolean): StormToken {
    const faceSat = proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
    const token = { text, proofs, ys: proofs.map(yOf), faceSat, isGood, isSpentElsewhere: false };
    this.tokens.push(token);
    return token;
  }
}

/** Names are public; keys and tokens are not shown. */
export function describeClaim({ scene, name, answer, hasGivenUp }: Claim): string {
  const end = hasGivenUp ? 'given up' : (answer?.status ?? 'not answered');
  return `scene ${scene.number} (${scene.manner}), ${name}: ${end} ${answer?.message ?? ''}`;
}
