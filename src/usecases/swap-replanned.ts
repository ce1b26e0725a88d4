import type { OutputPlan } from '../domain/ecash.ts';
import type { Step } from './operation-runs.ts';
import type { Swap, SwapEcash, SwapEnd } from './swap-ecash.ts';

/** How a swap stands, once there is no other way to try it now. */
export type SettledSwap = Exclude<SwapEnd, { outcome: 'plan_outdated' }>;

/**
 * Swaps proofs, with another plan of outputs where the mint has changed its keysets or fees.
 *
 * @param anotherPlan makes one and writes it down. `short`: the proofs are not worth enough any more;
 *   null: it cannot be made now, or another run is at it
 */
export async function swapReplanned(
  swapEcash: Pick<SwapEcash, 'begin' | 'resume'>,
  step: Step,
  swap: Swap,
  anotherPlan: () => Promise<OutputPlan | 'short' | null>,
): Promise<SettledSwap> {
  const first = await swapEcash[step](swap);
  if (first.outcome !== 'plan_outdated') {
    return first;
  }
  const plan = await anotherPlan();
  if (plan === null) {
    return {
      outcome: 'unsettled',
      reason: 'no new plan of outputs could be made',
      isUntouched: false,
    };
  }
  if (plan === 'short') {
    return { outcome: 'refused', reason: 'unbalanced', isCertain: first.isCertain };
  }
  // What was sent by the earlier plan is looked for as well.
  const second = await swapEcash.resume({ ...swap, plans: [...swap.plans, plan] });
  if (second.outcome !== 'plan_outdated') {
    return second;
  }
  // It says nothing against the proofs: the mint told us of other keysets or fees than it has now.
  return first.isCertain
    ? {
        outcome: 'unsettled',
        reason: 'keysets that the mint does not sign with',
        isUntouched: true,
      }
    : { outcome: 'refused', reason: 'other', isCertain: false };
}
