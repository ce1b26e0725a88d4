import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createDatabaseOpener } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { testConfig } from '../helpers/test-environment.ts';
import { type ApiResponse, requestJson, TestWallet } from '../helpers/test-wallet.ts';

/** Limits on open invoices hold for all processes of a database together. */

let here: Database;
let there: Database;

const ends = new AsyncDisposableStack();

beforeAll(async () => {
  const openOnce = await createDatabaseOpener(ends);
  [here, there] = [await openOnce(), await openOnce()];
});

afterAll(() => ends.disposeAsync());

it.each([
  ['LIMIT_OPEN_INVOICES_PER_RECIPIENT'],
  ['LIMIT_OPEN_INVOICES_PER_ADDRESS'],
  ['LIMIT_OPEN_INVOICES_PER_PAIR'],
])('%s is shared by two processes, and a payment makes room in both', async (limit) => {
  const mint = await startMint();
  // Each case has its own JWT secret, so addresses hash differently and earlier invoices do not count.
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
    log: createLogger('silent'),
  });
  onTestFinished(() => service.stop());
  return service;
}

/** Requests an invoice for one recipient from each service in turn. */
async function inTurn(services: readonly Service[], wallet: TestWallet): Promise<ApiResponse[]> {
  const answers: ApiResponse[] = [];
  for (const { url } of services) {
    answers.push(await requestJson(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`));
  }
  return answers;
}

function statusesOf(answers: readonly ApiResponse[]): number[] {
  return answers.map(({ status }) => status);
}
