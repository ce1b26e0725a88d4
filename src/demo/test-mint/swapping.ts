import type { Holds } from './holds.ts';
import {
  type Input,
  type Output,
  type OutputSignature,
  type Reservation,
  sumOfAmounts,
  type TestMintLedger,
} from './ledger.ts';
import { MintRefusal } from './refusal.ts';
import { refuseUnmetConditions } from './spending-conditions.ts';
import type { TestMintSwitches } from './switches.ts';

/** What swapping needs of the mint. */
export interface Swapping {
  ledger: TestMintLedger;
  switches: TestMintSwitches;
  holds: Holds;
}

/** Spends proofs for new signatures (NUT-03): the outputs are the inputs less the fee. */
export async function swap(
  swapping: Swapping,
  inputs: Input[],
  outputs: Output[],
): Promise<OutputSignature[]> {
  const { ledger, holds } = swapping;
  const reservation = reserve(swapping, inputs, outputs);
  await holds.pass('POST /v1/swap', 'during');
  return ledger.commit(reservation, outputs);
}

/**
 * Nutshell looks for spent inputs before it looks at the outputs, cdk after that: so the same swap
 * again is refused for its inputs by the one, for its outputs by the other.
 */
function reserve(
  { ledger, switches: { style } }: Swapping,
  inputs: Input[],
  outputs: Output[],
): Reservation {
  const verified = ledger.verified(inputs);
  refuseUnmetConditions({ inputs, outputs }, style);
  if (style === 'nutshell') {
    ledger.refuseSpent(verified);
  }
  if (sumOfAmounts(inputs) - ledger.keysets.feeSat(inputs) !== sumOfAmounts(outputs)) {
    throw new MintRefusal({ kind: 'unbalanced' });
  }
  ledger.refuseBadOutputs(outputs);
  if (style === 'cdk') {
    ledger.refuseSpent(verified);
  }
  ledger.refusePending(verified);
  return ledger.reserve(verified, outputs);
}
