import { describe, expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { plainRequest } from '../helpers/plain-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import type { ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { useWorld } from '../helpers/world.ts';

/** How many unpaid invoices a recipient, a payer's address, and both together may have. */

const PER_RECIPIENT = 6;
const PER_ADDRESS = 5;
const PER_PAIR = 4;

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const INVOICE = expect.objectContaining({ pr: expect.any(String) });

const clock = new TestClock();
const world = useWorld({
  mint: { now: clock.now },
  surroundings: { clock: clock.now },
  env: {
    // The test is a trusted proxy, so that it can choose the address of each payer.
    TRUST_PROXY: '127.0.0.1',
    LIMIT_OPEN_INVOICES_PER_RECIPIENT: String(PER_RECIPIENT),
    LIMIT_OPEN_INVOICES_PER_ADDRESS: String(PER_ADDRESS),
    LIMIT_OPEN_INVOICES_PER_PAIR: String(PER_PAIR),
  },
});
let addresses = 0;

describe('unpaid invoices of one recipient', () => {
  it('are limited whatever addresses ask, and leave other recipients alone', async () => {
    const flooded = world.newWallet();
    const created = invoicesCreated();
    const burst = tally(await Promise.all(Array.from({ length: 60 }, () => ask(flooded))));
    // Requests in progress may count twice, so a burst may get fewer than the limit.
    const later = tally(await inTurn(PER_RECIPIENT, () => ask(flooded)));
    expect(burst.given + later.given).toBe(PER_RECIPIENT);
    expect(invoicesCreated()).toBe(created + PER_RECIPIENT);
    const { status, headers, body } = await ask(flooded);
    expect(status).toBe(429);
    expect(headers.get('retry-after')).toBe('60');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      status: 'ERROR',
      reason: 'This recipient has too many unpaid invoices. Try again in 60 s.',
    });
    expect((await ask(world.newWallet())).body).toEqual(INVOICE);
  });

  it('make room when they are paid', async () => {
    const wallet = world.newWallet();
    const invoices = await inTurn(PER_RECIPIENT, () => ask(wallet));
    expect((await ask(wallet)).status).toBe(429);
    for (const { body } of invoices.slice(0, 2)) {
      world.mint.pay(body.pr);
    }
    await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(2));
    expect(tally(await inTurn(5, () => ask(wallet)))).toEqual({ given: 2, refused: 3 });
  });

  it.each([
    ['expire', 1_200, 20 * MINUTE_MS],
    ['are ten minutes old, if they expired before', 60, 10 * MINUTE_MS],
    ['are an hour old', 86_400, HOUR_MS],
  ])('make room when they %s', async (_case, expirySeconds, openMs) => {
    world.mint.switches.expirySeconds = expirySeconds;
    const wallet = world.newWallet();
    await inTurn(PER_RECIPIENT, () => ask(wallet));
    clock.advance(openMs - 2 * SECOND_MS);
    expect((await ask(wallet)).status).toBe(429);
    clock.advance(3 * SECOND_MS);
    expect((await ask(wallet)).body).toEqual(INVOICE);
  });

  it('do not include requests for which the mint returned no valid quote', async () => {
    const wallet = world.newWallet();
    world.mint.switches.wrongInvoiceAmountSat = 1;
    for (const { status } of await inTurn(20, () => ask(wallet))) {
      expect(status).not.toBe(429);
    }
    world.mint.switches.wrongInvoiceAmountSat = null;
    expect(tally(await inTurn(10, () => ask(wallet)))).toEqual({
      given: PER_RECIPIENT,
      refused: 10 - PER_RECIPIENT,
    });
  });
});

describe('unpaid invoices that one address asked for', () => {
  it('leave room for other payers of a recipient, even in a burst', async () => {
    const wallet = world.newWallet();
    const attacker = newAddress();
    const burst = Array.from({ length: 60 }, () => ask(wallet, attacker));
    expect((await ask(wallet)).body).toEqual(INVOICE);
    expect(tally(await Promise.all(burst)).given).toBeLessThanOrEqual(PER_PAIR);
    await inTurn(PER_PAIR, () => ask(wallet, attacker));
    expect((await ask(wallet, attacker)).body.reason).toBe(
      'You have too many unpaid invoices of this recipient. Try again in 60 s.',
    );
    expect((await ask(world.newWallet(), attacker)).body).toEqual(INVOICE);
  });

  it.each([
    ['an IPv4 address', () => '192.0.2.1'],
    ['a /64 of IPv6', (index: number) => `2001:db8::${index + 1}`],
  ])('are limited for %s, whatever the recipients', async (_case, addressOf) => {
    const created = invoicesCreated();
    const answers: ApiAnswer[] = [];
    for (let index = 0; index < 2 * PER_ADDRESS; index += 1) {
      answers.push(await ask(world.newWallet(), addressOf(index)));
    }
    expect(tally(answers)).toEqual({ given: PER_ADDRESS, refused: PER_ADDRESS });
    expect(invoicesCreated()).toBe(created + PER_ADDRESS);
    expect(answers.at(-1)?.body.reason).toBe(
      'You have too many unpaid invoices. Try again in 60 s.',
    );
  });

  it('are stored with a hash of the address, which is removed when they are paid', async () => {
    const wallet = world.newWallet();
    const { body } = await ask(wallet, '192.0.2.77');
    expect(await storedQuotes(wallet)).toEqual([
      { address_group: expect.stringMatching(/^[0-9a-f]{16}$/), has_address: false },
    ]);
    world.mint.pay(body.pr);
    await eventually(async () => {
      expect(await storedQuotes(wallet)).toEqual([{ address_group: null, has_address: false }]);
    });
  });

  async function storedQuotes({ pubkey }: TestWallet) {
    const rows = await world.database.db
      .selectFrom('quotes')
      .selectAll()
      .where('pubkey', '=', pubkey)
      .execute();
    return rows.map((row) => ({
      address_group: row.address_group,
      has_address: JSON.stringify(row).includes('192.0.2'),
    }));
  }
});

function ask(wallet: TestWallet, address = newAddress()): Promise<ApiAnswer> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return plainRequest(world.service.url, path, { headers: { 'x-forwarded-for': address } });
}

function newAddress(): string {
  addresses += 1;
  return `10.0.${addresses >> 8}.${addresses & 255}`;
}

async function inTurn(times: number, request: () => Promise<ApiAnswer>): Promise<ApiAnswer[]> {
  const answers: ApiAnswer[] = [];
  while (answers.length < times) {
    answers.push(await request());
  }
  return answers;
}

function tally(answers: readonly ApiAnswer[]) {
  return {
    given: answers.filter(({ status, body }) => status === 200 && 'pr' in body).length,
    refused: answers.filter(({ status }) => status === 429).length,
  };
}

function invoicesCreated(): number {
  return world.mint.requestCounts['POST /v1/mint/quote/bolt11'];
}
