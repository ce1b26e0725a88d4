import { sql } from 'kysely';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { useDatabase } from '../helpers/use-database.ts';
import { request } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** What a process that hears nothing of others says of invoices that it was asked about before. */

let database: Database;
let world: World;
/** Tells the service that it heard nothing for a while, and does again. */
let endGap: () => void;

useDatabase((opened) => {
  database = opened;
});

beforeEach(async () => {
  // As a connection whose other end has vanished, until it is found out.
  const listen: Database['listen'] = async ({ onGap }) => {
    endGap = () => onGap(Date.now());
    return { isConnected: true, isHearing: true, close: async () => undefined };
  };
  world = await openWorld({ surroundings: { database: { ...database, listen } } });
  onTestFinished(() => world.close());
});

it('an invoice is settled at once in the process that recorded its payment', async () => {
  const { pr, verify } = await world.askInvoice(world.newWallet(), 21);
  expect(await isSettled(verify)).toBe(false);
  world.mint.pay(pr);
  await eventually(async () => expect(await stateOf(pr)).toBe('PAID'));
  expect(await isSettled(verify)).toBe(true);
});

it('an invoice that was paid while nothing was heard is settled as soon as it is again', async () => {
  const { pr, verify } = await world.askInvoice(world.newWallet(), 21);
  expect(await isSettled(verify)).toBe(false);
  await sql`
    update quotes set state = 'PAID', paid_at = now(), paid_seq = 1
    where request = ${pr}`.execute(database.db);
  endGap();
  expect(await isSettled(verify)).toBe(true);
});

async function isSettled(verify: string): Promise<boolean> {
  return (await request(verify, '')).body.settled;
}

async function stateOf(pr: string): Promise<string | undefined> {
  const { rows } = await sql<{ state: string }>`
    select state from quotes where request = ${pr}`.execute(database.db);
  return rows[0]?.state;
}
