import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { plainRequest } from '../helpers/plain-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { type ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

let testDatabase: TestDatabase;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
});

// Tests use the same addresses.
beforeEach(() => database.db.deleteFrom('quotes').execute());

afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

describe('unpaid invoices of one recipient', () => {
  const LIMIT = { LIMIT_OPEN_INVOICES_PER_RECIPIENT: '5' };

  it('are limited whatever addresses ask, and leave other recipients alone', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const flooded = newWallet();
    const burst = tally(await Promise.all(Array.from({ length: 60 }, () => ask(flooded))));
    // Requests that are under way may count twice, so a burst may get fewer than five.
    const later = tally(await inTurn(5, () => ask(flooded)));
    expect(burst.given + later.given).toBe(5);
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(5);
    const { status, headers, body } = await ask(flooded);
    expect(status).toBe(429);
    expect(headers.get('retry-after')).toBe('60');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      status: 'ERROR',
      reason: 'This recipient has too many unpaid invoices. Try again in 60 s.',
    });
    expect((await ask(newWallet())).body).toEqual(anInvoice());
  });

  it('make room when they are paid', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    const invoices = await inTurn(5, () => ask(wallet));
    expect((await ask(wallet)).status).toBe(429);
    for (const { body } of invoices.slice(0, 2)) {
      mint.pay(body.pr);
    }
    await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(2));
    expect(tally(await inTurn(5, () => ask(wallet)))).toEqual({ given: 2, refused: 3 });
  });

  it.each([
    ['expire', 600, 10 * MINUTE],
    ['are an hour old', 86_400, HOUR],
  ])('make room when they %s', async (_case, expirySeconds, openMs) => {
    const { clock, ask, newWallet } = await open({ expirySeconds }, LIMIT);
    const wallet = newWallet();
    await inTurn(5, () => ask(wallet));
    clock.advance(openMs - 2 * SECOND);
    expect((await ask(wallet)).status).toBe(429);
    clock.advance(3 * SECOND);
    expect((await ask(wallet)).body).toEqual(anInvoice());
  });

  it('do not include requests for which the mint returned no valid quote', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    for (let failure = 0; failure < 20; failure += 1) {
      mint.switches.wrongInvoiceAmountSat = 1;
      expect((await ask(wallet)).status).not.toBe(429);
    }
    mint.switches.wrongInvoiceAmountSat = null;
    expect(tally(await inTurn(10, () => ask(wallet)))).toEqual({ given: 5, refused: 5 });
  });

  it('do not hide a wrong amount from a payer', async () => {
    const { ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    await inTurn(6, () => ask(wallet));
    const { status, body } = await ask(wallet, { amountMsat: 1 });
    expect(status).toBe(200);
    expect(body.reason).toContain('amount');
  });

  it('are never created by HEAD requests', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    for (const { status } of await inTurn(6, () => ask(wallet, { method: 'HEAD' }))) {
      expect(status).toBe(200);
    }
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(0);
  });
});

describe('unpaid invoices of one recipient that one address asked for', () => {
  // One address could fill the recipient's limit if there were no limit for the pair.
  const LIMITS = {
    LIMIT_OPEN_INVOICES_PER_RECIPIENT: '10',
    LIMIT_OPEN_INVOICES_PER_ADDRESS: '10',
  };

  it('leave room for a payer from another address', async () => {
    const { ask, newWallet } = await open({}, { ...LIMITS, LIMIT_OPEN_INVOICES_PER_PAIR: '4' });
    const victim = newWallet();
    const flood = await untilRefused(() => ask(victim, { address: '192.0.2.9' }));
    expect((await ask(victim)).body).toEqual(anInvoice());
    expect(tally(flood)).toEqual({ given: 4, refused: 1 });
    expect(flood.at(-1)?.body.reason).toBe(
      'You have too many unpaid invoices of this recipient. Try again in 60 s.',
    );
    // Other recipients can still be paid from that address.
    expect((await ask(newWallet(), { address: '192.0.2.9' })).body).toEqual(anInvoice());
  });

  it('leave room even in a burst', async () => {
    const { ask, newWallet } = await open({}, { ...LIMITS, LIMIT_OPEN_INVOICES_PER_PAIR: '4' });
    const victim = newWallet();
    const burst = Array.from({ length: 60 }, () => ask(victim, { address: '192.0.2.9' }));
    expect((await ask(victim)).body).toEqual(anInvoice());
    expect(tally(await Promise.all(burst)).given).toBeLessThanOrEqual(4);
  });

  it('leave room for a tenth address after nine hostile ones', async () => {
    const { ask, newWallet } = await open({}, { ...LIMITS, LIMIT_OPEN_INVOICES_PER_PAIR: '1' });
    const victim = newWallet();
    for (let attacker = 1; attacker <= 9; attacker += 1) {
      await untilRefused(() => ask(victim, { address: `192.0.2.${attacker}` }));
    }
    expect((await ask(victim, { address: '198.51.100.1' })).body).toEqual(anInvoice());
  });

  it('fill the limit of the recipient from ceil(perRecipient / perPair) addresses', async () => {
    const { ask, newWallet } = await open({}, { ...LIMITS, LIMIT_OPEN_INVOICES_PER_PAIR: '3' });
    const victim = newWallet();
    const given: number[] = [];
    for (let attacker = 1; attacker <= 4; attacker += 1) {
      const address = `192.0.2.${attacker}`;
      given.push(tally(await inTurn(5, () => ask(victim, { address }))).given);
    }
    expect(given).toEqual([3, 3, 3, 1]);
    expect((await ask(victim)).status).toBe(429);
  });
});

describe('unpaid invoices that one address asked for', () => {
  const LIMIT = { LIMIT_OPEN_INVOICES_PER_ADDRESS: '3' };

  it.each([
    ['an IPv4 address', () => '192.0.2.1'],
    ['a /64 of IPv6', (index: number) => `2001:db8::${index + 1}`],
  ])('are limited for %s, whatever the recipients', async (_case, addressOf) => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const answers: ApiAnswer[] = [];
    for (let index = 0; index < 10; index += 1) {
      answers.push(await ask(newWallet(), { address: addressOf(index) }));
    }
    expect(tally(answers)).toEqual({ given: 3, refused: 7 });
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(3);
    expect(answers.at(-1)?.body.reason).toBe(
      'You have too many unpaid invoices. Try again in 60 s.',
    );
    expect((await ask(newWallet())).body).toEqual(anInvoice());
  });

  it('do not keep a custodial wallet from paying many recipients at once', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    for (let payment = 0; payment < 12; payment += 1) {
      const wallet = newWallet();
      const { body } = await ask(wallet, { address: '192.0.2.1' });
      expect(body).toEqual(anInvoice());
      mint.pay(body.pr);
      await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(1));
    }
  });

  it('are stored with a hash of the address, which is removed when they are paid', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    const { body } = await ask(wallet, { address: '192.0.2.77' });
    expect(await storedQuotes(wallet)).toEqual([
      { address_group: expect.stringMatching(/^[0-9a-f]{16}$/), has_address: false },
    ]);
    mint.pay(body.pr);
    await eventually(async () => {
      expect(await storedQuotes(wallet)).toEqual([{ address_group: null, has_address: false }]);
    });
  });

  async function storedQuotes({ pubkey }: TestWallet) {
    const { rows } = await sql`
      select address_group, quotes::text like '%192.0.2%' as has_address
      from quotes where pubkey = ${pubkey}`.execute(database.db);
    return rows;
  }
});

/** A service and a mint that share a clock, with no limits but the given ones. */
async function open(switches: Partial<TestMintSwitches>, env: Record<string, string>) {
  const clock = new TestClock();
  const mint = await TestMint.start({ switches, now: clock.now });
  onTestFinished(() => mint.close());
  // The test is a trusted proxy, so that it can choose the address of each payer.
  const service = await startService(testConfig(mint.url, { TRUST_PROXY: '127.0.0.1', ...env }), {
    database,
    log: openLog('silent'),
    clock: clock.now,
  });
  onTestFinished(() => service.stop());
  return {
    mint,
    clock,
    newWallet: () => new TestWallet(service.publicOrigin, clock.now),
    ask: payersOf(service.url),
  };
}

/** Payers, each at an address of its own unless the test gives one. */
function payersOf(base: string) {
  let payers = 0;
  return (
    wallet: TestWallet,
    order: { address?: string; amountMsat?: number; method?: 'HEAD' } = {},
  ): Promise<ApiAnswer> => {
    payers += 1;
    const address = order.address ?? `10.0.${payers >> 8}.${payers & 255}`;
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=${order.amountMsat ?? 21_000}`;
    const headers = { 'x-forwarded-for': address };
    return plainRequest(base, path, { headers, method: order.method ?? 'GET' });
  };
}

function anInvoice() {
  return expect.objectContaining({ pr: expect.any(String) });
}

async function inTurn(times: number, ask: () => Promise<ApiAnswer>): Promise<ApiAnswer[]> {
  const answers: ApiAnswer[] = [];
  while (answers.length < times) {
    answers.push(await ask());
  }
  return answers;
}

/** Asks until an answer is 429, which is the last one returned. */
async function untilRefused(ask: () => Promise<ApiAnswer>): Promise<ApiAnswer[]> {
  const answers = [await ask()];
  while (answers.at(-1)?.status !== 429) {
    answers.push(await ask());
  }
  return answers;
}

function tally(answers: readonly ApiAnswer[]) {
  return {
    given: answers.filter(({ status, body }) => status === 200 && 'pr' in body).length,
    refused: answers.filter(({ status }) => status === 429).length,
  };
}
