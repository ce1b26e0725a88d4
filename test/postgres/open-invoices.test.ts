import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { databaseOn } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startMint } from '../helpers/mints.ts';
import { type ApiAnswer, request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** Limits on open invoices hold for all processes of a database together. */

let here: Database;
let there: Database;

const ends = new AsyncDisposableStack();

beforeAll(async () => {
  const openOnce = await databaseOn(ends);
  [here, there] = [await openOnce(), await openOnce()];
});

afterAll(() => ends.disposeAsync());

it.each([
  ['LIMIT_OPEN_INVOICES_PER_RECIPIENT'],
  ['LIMIT_OPEN_INVOICES_PER_ADDRESS'],
  ['LIMIT_OPEN_INVOICES_PER_PAIR'],
])('%s is shared by two processes, and a payment makes room in both', async (limit) => {
  const mint = await startMint();
  // A JWT secret of its own for each case: what earlier cases left counts for other hashes of the address.
  const env = { [limit]: '4', JWT_SECRET: `the secret of the test of ${limit}` };
  const [first, second] = [await start(here, mint, env), await start(there, mint, env)];
  const wallet = new TestWallet(first.publicOrigin);
  const invoices = await inTurn([first, second, first, second], wallet);
  expect(statusesOf(invoices)).toEqual([200, 200, 200, 200]);
  expect(statusesOf(await inTurn([first, second], wallet))).toEqual([429, 429]);

  mint.pay(invoices[0]?.body.pr);
  mint.pay(invoices[1]?.body.pr);
  await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(2));
  expect(statusesOf(await inTurn([second, first], wallet))).toEqual([200, 200]);
  expect(statusesOf(await inTurn([second, first], wallet))).toEqual([429, 429]);
});

async function start(
  database: Database,
  mint: TestMint,
  env: Record<string, string>,
): Promise<Service> {
  const service = await startService(testConfig(mint.url, env), {
    database,
    log: openLog('silent'),
  });
  onTestFinished(() => service.stop());
  return service;
}

/** Asks each of the services for an invoice of one recipient, one after another. */
async function inTurn(services: readonly Service[], wallet: TestWallet): Promise<ApiAnswer[]> {
  const answers: ApiAnswer[] = [];
  for (const { url } of services) {
    answers.push(await request(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`));
  }
  return answers;
}

function statusesOf(answers: readonly ApiAnswer[]): number[] {
  return answers.map(({ status }) => status);
}
