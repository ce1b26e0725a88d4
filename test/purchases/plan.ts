import type { Dice } from '../../src/demo/test-mint/dice.ts';

/** What buyers do, and how often: the shares add up to 1. */
const SHARES = {
  /** One key buys one name. */
  plain: 0.2,
  /** It sends each request several times, to all processes. */
  impatient: 0.12,
  /** Several keys want one name, each with a token of its own. */
  contest: 0.14,
  /** One key wants one name with several tokens at once. */
  twoTokens: 0.08,
  /** One key wants two names with one token. */
  twoNames: 0.08,
  /** Two keys want a name each with one token. */
  twoKeys: 0.06,
  /** Two keys want one name with one token. */
  sharedToken: 0.05,
  /** One key buys a name, and later another. */
  secondName: 0.07,
  /** The token is worth too little. */
  short: 0.04,
  /** The token was spent before. */
  spent: 0.04,
  /** The buyer is gone before the answer, and never asks again. */
  goneForGood: 0.07,
  /** The buyer is gone before the answer, and spends the token elsewhere, or tries to. */
  reclaiming: 0.05,
} as const;

export type Manner = keyof typeof SHARES;

export const MANNERS = Object.keys(SHARES) as Manner[];

/** What one group of buyers is going to do, the same in every run with the same seed. */
export interface PlannedScene {
  /** From 1. */
  number: number;
  manner: Manner;
  /** For everything else that is left to chance. */
  dice: Dice;
}

/** Plans a scene, whatever the number of scenes before it. */
export function planScene(dice: Dice, number: number): PlannedScene {
  const own = dice.fork(`scene ${number}`);
  // One of each comes first, so that none is missing.
  const [first] = MANNERS.slice(number - 1);
  if (first !== undefined) {
    return { number, manner: first, dice: own };
  }
  let left = own.roll();
  for (const manner of MANNERS) {
    left -= SHARES[manner];
    if (left < 0) {
      return { number, manner, dice: own };
    }
  }
  return { number, manner: 'plain', dice: own };
}
