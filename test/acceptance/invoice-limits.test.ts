import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
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

/** What a flood of requests for invoices leaves to everybody else. */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';
const CHECK_QUOTES = 'POST /v1/mint/quote/bolt11/check';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Nutshell's limit, as it comes. */
const NUTSHELL: Partial<TestMintSwitches> = { rateLimit: { perMinute: 20 } };

const FLOOD = 60;

let testDatabase: TestDatabase;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
});

afterAll(async () => {
  await database.close();
  await testDatabase.drop();
});

describe('a mint that allows twenty requests a minute', () => {
  it('makes invoices for others while one recipient is flooded, and refuses nobody', async () => {
    const { mint, ask, newWallet } = await open(NUTSHELL, { LIMIT_INVOICES_PER_RECIPIENT: '10' });
    const flooded = newWallet();
    const others = Array.from({ length: 8 }, () => newWallet());

    const flood = Array.from({ length: FLOOD }, () => ask(flooded));
    const asked = await Promise.all(others.map((other) => ask(other)));
    expect(asked.map(({ body }) => body)).toEqual(others.map(() => anInvoice()));
    expect(tally(await Promise.all(flood))).toEqual({ given: 10, refused: FLOOD - 10 });
    expect(refusalsOf(mint)).toBe(0);
  });

  it('tells the flood when there will be room, and then there is', async () => {
    const { clock, ask, newWallet } = await open(NUTSHELL, { LIMIT_INVOICES_PER_RECIPIENT: '10' });
    const flooded = newWallet();
    await Promise.all(Array.from({ length: 10 }, () => ask(flooded)));
    clock.advance(20 * SECOND);
    const { status, headers, body } = await ask(flooded);
    expect(status).toBe(429);
    expect(headers.get('retry-after')).toBe('40');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({ status: 'ERROR', reason: expect.stringContaining('40 s') });

    clock.advance(40 * SECOND);
    expect((await ask(flooded)).body).toEqual(anInvoice());
  });

  it('is shared by its limit once that is known, and never overrun again', async () => {
    const { mint, clock, ask, newWallet, learnLimit } = await open(NUTSHELL, {
      LIMIT_INVOICES_PER_RECIPIENT: '10',
    });
    await learnLimit();
    const refusals = refusalsOf(mint);
    const flooded = newWallet();
    for (let window = 0; window < 3; window += 1) {
      // Nutshell's minute begins anew with each request: it has to be a quiet one.
      clock.advance(2 * MINUTE);
      const flood = Array.from({ length: FLOOD }, () => ask(flooded));
      expect(tally(await Promise.all(flood))).toEqual({ given: 8, refused: FLOOD - 8 });
      for (let other = 0; other < 8; other += 1) {
        expect((await ask(newWallet())).body).toEqual(anInvoice());
      }
    }
    expect(refusalsOf(mint)).toBe(refusals);
  });

  it('makes invoices for others while one address asks for made-up recipients', async () => {
    const { clock, ask, newWallet, learnLimit } = await open(NUTSHELL, {
      LIMIT_INVOICES_PER_RECIPIENT: '10',
    });
    await learnLimit();
    for (let window = 0; window < 3; window += 1) {
      clock.advance(2 * MINUTE);
      const flood = Array.from({ length: 20 }, () => ask(newWallet(), { address: '192.0.2.9' }));
      expect(tally(await Promise.all(flood))).toEqual({ given: 8, refused: 12 });
      for (let other = 0; other < 5; other += 1) {
        expect((await ask(newWallet())).body).toEqual(anInvoice());
      }
    }
  });

  it('leaves room to others who pay a recipient that one address asks for', async () => {
    const { clock, ask, newWallet, learnLimit } = await open(NUTSHELL, {
      LIMIT_INVOICES_PER_RECIPIENT: '10',
    });
    await learnLimit();
    const victim = newWallet();
    for (let window = 0; window < 3; window += 1) {
      clock.advance(2 * MINUTE);
      const flood = Array.from({ length: 20 }, () => ask(victim, { address: '192.0.2.9' }));
      expect(tally(await Promise.all(flood))).toEqual({ given: 6, refused: 14 });
      for (let other = 0; other < 2; other += 1) {
        expect((await ask(victim)).body).toEqual(anInvoice());
        expect((await ask(newWallet())).body).toEqual(anInvoice());
      }
    }
  });

  it('tells a payer when to come back, where all that it allows is used', async () => {
    const { clock, ask, newWallet, learnLimit } = await open(NUTSHELL);
    await learnLimit();
    clock.advance(5 * SECOND);
    const refused = await ask(newWallet());
    expect(refused.status).toBe(500);
    expect(refused.headers.get('retry-after')).toBe('60');
    clock.advance(MINUTE);
    expect((await ask(newWallet())).body).toEqual(anInvoice());
  });

  it('is shared by its limit after a restart too', async () => {
    const { mint, clock, service, learnLimit } = await open(NUTSHELL);
    await learnLimit();
    await eventually(async () => {
      const { rows } = await sql`
        select 1 from mints where url = ${mint.url} and learnt_limits ? 'create'`.execute(
        database.db,
      );
      expect(rows).toHaveLength(1);
    });
    await service.stop();
    clock.advance(2 * MINUTE);
    const checks = mint.requestCounts[CHECK_QUOTES];
    const refusals = refusalsOf(mint);
    const { ask, newWallet } = await serve(mint, clock);
    // What was learnt is taken over before the mint's quotes are asked about.
    await eventually(() => expect(mint.requestCounts[CHECK_QUOTES]).toBeGreaterThan(checks));

    const flooded = newWallet();
    const flood = Array.from({ length: FLOOD }, () => ask(flooded));
    // Half of the limit may have been used by the process that ran before.
    expect(tally(await Promise.all(flood))).toEqual({ given: 4, refused: FLOOD - 4 });
    expect((await ask(newWallet())).body).toEqual(anInvoice());
    expect(refusalsOf(mint)).toBe(refusals);
  });
});

describe('a mint without a limit', () => {
  it('soon makes as many invoices of a popular recipient as are asked for', async () => {
    const { clock, ask, newWallet } = await open({}, { LIMIT_INVOICES_PER_RECIPIENT: '10' });
    const popular = newWallet();
    const given: number[] = [];
    for (let minute = 0; minute < 3; minute += 1) {
      clock.advance(MINUTE);
      const answers: ApiAnswer[] = [];
      for (let burst = 0; burst < 3; burst += 1) {
        answers.push(...(await Promise.all(Array.from({ length: 30 }, () => ask(popular)))));
      }
      given.push(tally(answers).given);
    }
    expect(given).toEqual([10, 30, 90]);
  });

  it('leaves room to others who pay a recipient that one address asks for', async () => {
    const { ask, newWallet } = await open({}, { LIMIT_INVOICES_PER_RECIPIENT: '10' });
    const victim = newWallet();
    const flood = Array.from({ length: 20 }, () => ask(victim, { address: '192.0.2.9' }));
    expect(tally(await Promise.all(flood))).toEqual({ given: 5, refused: 15 });
    for (let other = 0; other < 5; other += 1) {
      expect((await ask(victim)).body).toEqual(anInvoice());
    }
  });
});

describe('a slow mint', () => {
  it('answers others while a recipient that it was fast for is flooded', async () => {
    const { mint, ask, newWallet } = await open({}, { LIMIT_INVOICES_PER_RECIPIENT: '1000' });
    const flooded = newWallet();
    await Promise.all(Array.from({ length: 30 }, () => ask(flooded)));
    const holds = Array.from({ length: 4 }, () => mint.hold(CREATE_QUOTE, 'before'));
    const flood = Array.from({ length: 200 }, () => ask(flooded));
    await Promise.all(holds.map((hold) => hold.reached));
    for (let other = 0; other < 5; other += 1) {
      expect((await ask(newWallet())).body).toEqual(anInvoice());
    }
    for (const hold of holds) {
      hold.release();
    }
    // Whoever still waits after some seconds is told to come back.
    const { given, refused } = tally(await Promise.all(flood));
    expect(given).toBeGreaterThanOrEqual(4);
    expect(given + refused).toBe(flood.length);
  });

  it('answers others while one address asks for made-up recipients', async () => {
    const { mint, ask, newWallet } = await open({}, { LIMIT_INVOICES_PER_RECIPIENT: '10' });
    const holds = Array.from({ length: 4 }, () => mint.hold(CREATE_QUOTE, 'before'));
    const flood = Array.from({ length: 60 }, () => ask(newWallet(), { address: '192.0.2.9' }));
    await Promise.all(holds.map((hold) => hold.reached));
    expect((await ask(newWallet())).body).toEqual(anInvoice());
    for (const hold of holds) {
      hold.release();
    }
    // Whoever still waits after some seconds is told to come back.
    const { given, refused } = tally(await Promise.all(flood));
    expect(given).toBeGreaterThanOrEqual(4);
    expect(given + refused).toBe(flood.length);
  });
});

describe('invoices of one recipient that nobody pays', () => {
  const LIMIT = { LIMIT_OPEN_INVOICES_PER_RECIPIENT: '5' };

  it('are so many and no more, from whatever addresses, and shut out nobody else', async () => {
    const { mint, clock, ask, newWallet } = await open({}, LIMIT);
    const flooded = newWallet();
    // Together they may get one or two less: what is being made may be counted twice.
    const { given } = tally(await Promise.all(Array.from({ length: FLOOD }, () => ask(flooded))));
    clock.advance(SECOND);
    const others = tally(await inTurn(5, () => ask(flooded)));
    expect(given + others.given).toBe(5);
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(5);
    const { status, headers, body } = await ask(flooded);
    expect(status).toBe(429);
    // One of them may be paid at any time.
    expect(headers.get('retry-after')).toBe('60');
    expect(body).toEqual({ status: 'ERROR', reason: expect.stringContaining('60 s') });
    expect((await ask(newWallet())).body).toEqual(anInvoice());
  });

  it('make room when they are paid', async () => {
    const { mint, clock, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    const invoices = await inTurn(5, () => ask(wallet));
    expect((await ask(wallet)).status).toBe(429);
    for (const { body } of invoices.slice(0, 2)) {
      mint.pay(body.pr);
    }
    await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(2));
    clock.advance(SECOND);
    expect(tally(await inTurn(5, () => ask(wallet)))).toEqual({ given: 2, refused: 3 });
  });

  it.each([
    ['can no longer be paid', 600, 10 * MINUTE],
    ['are an hour old', 86_400, HOUR],
  ])('make room when they %s', async (_case, expirySeconds, openMs) => {
    const { clock, ask, newWallet } = await open({ expirySeconds }, LIMIT);
    const wallet = newWallet();
    await inTurn(5, () => ask(wallet));
    clock.advance(openMs - 2 * SECOND);
    const refused = await ask(wallet);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(3);
    clock.advance(3 * SECOND);
    expect((await ask(wallet)).body).toEqual(anInvoice());
  });

  it('are not made of what a mint did not give', async () => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    for (let failure = 0; failure < 20; failure += 1) {
      mint.switches.wrongInvoiceAmountSat = 1;
      expect((await ask(wallet)).status).not.toBe(429);
    }
    mint.switches.wrongInvoiceAmountSat = null;
    expect(tally(await inTurn(10, () => ask(wallet)))).toEqual({ given: 5, refused: 5 });
  });

  it('do not keep a payer from hearing what is wrong with the amount', async () => {
    const { ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    await inTurn(6, () => ask(wallet));
    const { status, body } = await ask(wallet, { amountMsat: 1 });
    expect(status).toBe(200);
    expect(body.reason).toContain('amount');
  });
});

describe('invoices that one address asked for and nobody pays', () => {
  const LIMIT = { LIMIT_OPEN_INVOICES_PER_ADDRESS: '3' };

  it.each([
    ['one address', () => '192.0.2.1'],
    ['one network of IPv6', (index: number) => `2001:db8::${index + 1}`],
  ])('are so many and no more for %s, whoever is to be paid', async (_case, addressOf) => {
    const { mint, ask, newWallet } = await open({}, LIMIT);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => ask(newWallet(), { address: addressOf(index) })),
    );
    expect(tally(answers)).toEqual({ given: 3, refused: 17 });
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(3);
    const refused = await ask(newWallet(), { address: addressOf(0) });
    expect(refused.headers.get('retry-after')).toBe('60');
    expect((await ask(newWallet())).body).toEqual(anInvoice());
  });

  it('make room when they are paid', async () => {
    const { mint, clock, ask, newWallet } = await open({}, LIMIT);
    const wallet = newWallet();
    const askFromOne = () => ask(wallet, { address: '192.0.2.1' });
    const { body } = await askFromOne();
    await Promise.all([askFromOne(), askFromOne()]);
    expect((await askFromOne()).status).toBe(429);
    mint.pay(body.pr);
    await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(1));
    clock.advance(SECOND);
    expect(tally([await askFromOne(), await askFromOne()])).toEqual({ given: 1, refused: 1 });
  });

  it('make room after an hour', async () => {
    const { clock, ask, newWallet } = await open({ expirySeconds: 86_400 }, LIMIT);
    const askFromOne = () => ask(newWallet(), { address: '192.0.2.1' });
    await Promise.all([askFromOne(), askFromOne(), askFromOne()]);
    clock.advance(HOUR - 1);
    expect((await askFromOne()).status).toBe(429);
    clock.advance(1);
    expect((await askFromOne()).body).toEqual(anInvoice());
  });

  it('keep nobody out for longer where the clock is set back', async () => {
    const { clock, ask, newWallet } = await open({ expirySeconds: 86_400 }, LIMIT);
    const askFromOne = () => ask(newWallet(), { address: '192.0.2.1' });
    await Promise.all([askFromOne(), askFromOne(), askFromOne()]);
    expect((await askFromOne()).status).toBe(429);
    clock.advance(-24 * HOUR);
    expect((await askFromOne()).headers.get('retry-after')).toBe('60');
    clock.advance(HOUR);
    expect((await askFromOne()).body).toEqual(anInvoice());
  });

  it('are not written down beside the address', async () => {
    const { ask, newWallet } = await open({}, LIMIT);
    await ask(newWallet(), { address: '192.0.2.77' });
    const { rows } = await sql<{ written: string }>`
      select coalesce(string_agg(quotes::text, ''), '')
        || coalesce((select string_agg(quote_events::text, '') from quote_events), '') as written
      from quotes`.execute(database.db);
    expect(rows[0]?.written).toContain('lnbc');
    expect(rows[0]?.written).not.toContain('192.0.2');
  });
});

/** A service and a mint that share a clock, and no limit but those given. */
async function open(switches: Partial<TestMintSwitches>, env: Record<string, string> = {}) {
  const clock = new TestClock();
  const mint = await TestMint.start({ switches, now: clock.now });
  onTestFinished(() => mint.close());
  const served = await serve(mint, clock, env);
  return {
    ...served,
    mint,
    clock,
    /** Everybody wants one invoice, until the mint has said that it is too much. */
    learnLimit: async () => {
      for (let payer = 0; payer < 21; payer += 1) {
        await served.ask(served.newWallet());
      }
      expect(refusalsOf(mint)).toBe(1);
    },
  };
}

/** A service, which trusts the test to say where a payer is. */
async function serve(mint: TestMint, clock: TestClock, env: Record<string, string> = {}) {
  const service = await startService(testConfig(mint.url, { TRUST_PROXY: '127.0.0.1', ...env }), {
    database,
    log: openLog('silent'),
    pollGapMs: 0,
    clock: clock.now,
  });
  onTestFinished(() => service.stop());
  return {
    service,
    newWallet: () => new TestWallet(service.publicOrigin, clock.now),
    ask: payersOf(service.url),
  };
}

/** Payers, each at an address of its own unless it is given. */
function payersOf(base: string) {
  let payers = 0;
  return (
    wallet: TestWallet,
    order: { address?: string; amountMsat?: number } = {},
  ): Promise<ApiAnswer> => {
    payers += 1;
    const address = order.address ?? `10.0.${payers >> 8}.${payers & 255}`;
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=${order.amountMsat ?? 21_000}`;
    return plainRequest(base, path, { headers: { 'x-forwarded-for': address } });
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

function tally(answers: readonly ApiAnswer[]) {
  return {
    given: answers.filter(({ status, body }) => status === 200 && 'pr' in body).length,
    refused: answers.filter(({ status }) => status === 429).length,
  };
}

/** Requests for a quote that the mint did not grant. */
function refusalsOf(mint: TestMint): number {
  return mint.requestCounts[CREATE_QUOTE] - mint.quotes.size;
}
