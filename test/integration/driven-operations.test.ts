import { expect, it } from 'vitest';
import type { DrivenOperations } from '../../src/store/driven-operations.ts';
import { Store } from '../../src/store/store.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** Who is at an operation, on either database. */

const MINUTE_MS = 60_000;

let store: Store;
let driven: DrivenOperations;
let purchases = 0;

useDatabase((opened) => {
  store = new Store(opened.db);
  driven = store.purchases.driven;
});

it('one run has an operation, and goes on having it', async () => {
  const id = await begun('one');
  expect(await driven.keep(id, 'one')).toBe(true);
  expect(await driven.drive(id, 'two')).toBe(false);
  expect(await driven.keep(id, 'two')).toBe(false);
});

it('a run that slept does not get back what another has had since', async () => {
  const id = await begun('sleeper');
  await driven.abandonAll();
  expect(await driven.drive(id, 'other')).toBe(true);
  await driven.postpone(id, 'other', { reason: 'lost', nextTryAtMs: 0, doubtedAtMs: null });
  expect(await driven.keep(id, 'sleeper')).toBe(false);
  expect(await driven.drive(id, 'third')).toBe(true);
});

it('what waits is due at its time, and also where a clock that was ahead planned it', async () => {
  const nowMs = Date.now();
  const due = async (plannedMs: number) => {
    const id = await begun('one');
    const plan = { reason: 'lost', nextTryAtMs: plannedMs, doubtedAtMs: null };
    await driven.postpone(id, 'one', plan);
    return (await driven.due(nowMs, nowMs + 10 * MINUTE_MS, 1_000)).includes(id);
  };
  expect(await due(nowMs)).toBe(true);
  expect(await due(nowMs + MINUTE_MS)).toBe(false);
  expect(await due(nowMs + 365 * 24 * 60 * MINUTE_MS)).toBe(true);
});

it('a plan of outputs is added by the run that has the purchase, in its place', async () => {
  const id = await begun('one');
  const plan = { keysetId: '00', amounts: [1] };
  expect(await store.purchases.addPlan(id, 'two', { plan, position: 1 })).toBe(false);
  expect(await store.purchases.addPlan(id, 'one', { plan, position: 2 })).toBe(false);
  expect(await store.purchases.addPlan(id, 'one', { plan, position: 1 })).toBe(true);
  expect((await store.purchases.findOpen(id))?.plans).toHaveLength(2);
});

/** A purchase that was just written down by a run. */
async function begun(driver: string): Promise<string> {
  purchases += 1;
  const id = `purchase-${purchases}`;
  await store.purchases.open({
    id,
    pubkey: 'ab'.repeat(32),
    name: `name${purchases}`,
    priceSat: 1,
    paidSat: 1,
    mintUrl: 'https://mint.example',
    createdAtMs: Date.now(),
    token: 'sealed',
    plan: { keysetId: '00', amounts: [1] },
    driver,
  });
  return id;
}
