import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { recorderOn } from '../helpers/recorder.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { databaseOn } from '../helpers/use-database.ts';
import { type ApiAnswer, request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** Limits on open invoices, with several processes. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** Each as one process has it; in the last, no service runs. */
let here: Database;
let there: Database;
let outside: Database;

const ends = new AsyncDisposableStack();

beforeAll(async () => {
  const openOnce = await databaseOn(ends);
  [here, there, outside] = [await openOnce(), await openOnce(), await openOnce()];
});

afterAll(() => ends.disposeAsync());

describe('a limit on open invoices counts those of all processes', () => {
  it('until invoices of the recipient are paid', async () => {
    const { first, second, newWallet, recordPayment } = await open({
      LIMIT_OPEN_INVOICES_PER_RECIPIENT: '4',
    });
    const wallet = newWallet();
    const invoices = [
      ...(await given(2, () => ask(first, wallet))),
      ...(await given(2, () => ask(second, wallet))),
    ];
    expect(await statusesOf(wallet, [first, second])).toEqual([429, 429]);
    await recordPayment(invoices[0]);
    await recordPayment(invoices[3]);
    expect(await statusesOf(wallet, [first, second])).toEqual([200, 200]);
    expect(await statusesOf(wallet, [first, second])).toEqual([429, 429]);
  });

  it('until an invoice of the recipient expires', async () => {
    const { clock, first, second, newWallet } = await open({
      LIMIT_OPEN_INVOICES_PER_RECIPIENT: '4',
    });
    const wallet = newWallet();
    await given(1, () => ask(first, wallet));
    clock.advance(MINUTE);
    await given(3, () => ask(first, wallet));
    clock.advance(9 * MINUTE - 1);
    expect(await statusesOf(wallet, [second, first])).toEqual([429, 429]);
    clock.advance(1);
    expect(await statusesOf(wallet, [second, first])).toEqual([200, 429]);
  });

  it('until invoices that one address requested are paid', async () => {
    const { clock, first, second, newWallet, recordPayment } = await open({
      LIMIT_OPEN_INVOICES_PER_ADDRESS: '3',
    });
    // Invoices of the other tests come from the same address.
    clock.advance(60 * MINUTE);
    const wallet = newWallet();
    const [invoice] = await given(1, () => ask(first, wallet));
    await given(2, () => ask(second, newWallet()));
    expect(await statusesOf(wallet, [first, second])).toEqual([429, 429]);
    await recordPayment(invoice);
    expect(await statusesOf(wallet, [second, first])).toEqual([200, 429]);
  });
});

/** Two services and a mint that share a clock, which begins at a full second as a mint tells expiries. */
async function open(env: Record<string, string>) {
  const clock = new TestClock(Math.floor(Date.now() / SECOND) * SECOND);
  // Without its socket, the mint tells neither service of a payment while the clock stands.
  const switches = { expirySeconds: (10 * MINUTE) / SECOND, socket: false };
  const mint = await TestMint.start({ switches, now: clock.now });
  onTestFinished(() => mint.close());
  const start = async (database: Database) => {
    const service = await startService(testConfig(mint.url, env), {
      database,
      log: openLog('silent'),
      pollGapMs: 0,
      clock: clock.now,
      monotonicMs: clock.now,
    });
    onTestFinished(() => service.stop());
    return service;
  };
  const [first, second] = [await start(here), await start(there)];
  return {
    clock,
    first,
    second,
    newWallet: () => new TestWallet(first.publicOrigin, clock.now),
    /** Somebody pays an invoice, and a process that is neither of the two records it. */
    recordPayment: async (invoice: ApiAnswer | undefined) => {
      const { id: quoteId } = mint.pay(invoice?.body.pr);
      const recorder = recorderOn(new Store(outside.db));
      await recorder.record(mint.url, [{ quoteId, state: 'PAID', source: 'poll' }]);
    },
  };
}

function ask(service: Service, wallet: TestWallet): Promise<ApiAnswer> {
  return request(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
}

/** So many invoices, one after another. */
async function given(times: number, askOnce: () => Promise<ApiAnswer>): Promise<ApiAnswer[]> {
  const answers: ApiAnswer[] = [];
  while (answers.length < times) {
    const answer = await askOnce();
    expect(answer.body).toMatchObject({ pr: expect.any(String) });
    answers.push(answer);
  }
  return answers;
}

/** What each is answered, in turn: 200 with an invoice, or 429. */
async function statusesOf(wallet: TestWallet, services: readonly Service[]): Promise<number[]> {
  const statuses: number[] = [];
  for (const service of services) {
    const { status, body } = await ask(service, wallet);
    expect('pr' in body).toBe(status === 200);
    statuses.push(status);
  }
  return statuses;
}
