import { setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { mapInSlices } from '../../../src/usernames/ecash/proofs.ts';
import { CURVE_SLICE_MS } from '../../../src/usernames/limits.ts';

it('runs one slice in a turn of the event loop, however many callers there are', async () => {
  const items = [1, 2, 3];
  let slicesOfTurn = 0;
  let maxSlicesOfTurn = 0;
  const fillSlice = () => {
    slicesOfTurn += 1;
    maxSlicesOfTurn = Math.max(maxSlicesOfTurn, slicesOfTurn);
    const startedAtMs = performance.now();
    while (performance.now() - startedAtMs < CURVE_SLICE_MS) {
      // Blocks the event loop, as curve operations do.
    }
  };
  let pendingCallers = 5;
  for (let i = pendingCallers; i > 0; i -= 1) {
    void mapInSlices(items, fillSlice).then(() => {
      pendingCallers -= 1;
    });
  }
  while (pendingCallers > 0) {
    await nextEventLoopTurn();
    slicesOfTurn = 0;
  }
  expect(maxSlicesOfTurn).toBe(1);
});
