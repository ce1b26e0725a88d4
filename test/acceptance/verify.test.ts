import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { QuoteState } from '../../src/domain/quote.ts';
import { plainRequest } from '../helpers/plain-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { request } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** `GET /lnurl/verify/{token}` (spec.md section 4.9), by LUD-21. */

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

const NOT_FOUND = { status: 'ERROR', reason: 'Not found' };

describe('a verify url', () => {
  it('says of a fresh invoice that it is not settled', async () => {
    const { pr, verify } = await world.askInvoice(world.newWallet(), 21);
    const { status, headers, body } = await request(verify, '');
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({ status: 'OK', settled: false, preimage: null, pr });
  });

  it('says of a paid invoice that it is settled, still without a preimage', async () => {
    const wallet = world.newWallet();
    const socket = await wallet.openSocket();
    const { pr, verify } = await world.pay(wallet, 21);
    await socket.next();
    await socket.close();
    const { body } = await request(verify, '');
    expect(body).toEqual({ status: 'OK', settled: true, preimage: null, pr });
  });

  it.each<[QuoteState, boolean]>([
    ['UNPAID', false],
    ['EXPIRED', false],
    ['INFLIGHT', false],
    ['PAID', true],
    ['ISSUED', true],
  ])('goes by the state that is kept: %s', async (state, settled) => {
    const { verify } = await world.askInvoice(world.newWallet(), 21);
    await keepState(verify, state);
    expect((await request(verify, '')).body).toMatchObject({ status: 'OK', settled });
  });

  it('asks no mint', async () => {
    // A clock that stands, so that nothing becomes due meanwhile.
    const still = await openWorld({ surroundings: { clock: new TestClock().now } });
    onTestFinished(() => still.close());
    const { verify } = await still.askInvoice(still.newWallet(), 21);
    const before = questionsAboutQuotes(still);
    await Promise.all(Array.from({ length: 20 }, () => request(verify, '')));
    expect(questionsAboutQuotes(still)).toEqual(before);
  });

  it('gives the mint’s secret id of the quote to nobody', async () => {
    const { pr, verify } = await world.askInvoice(world.newWallet(), 21);
    const { quote_id } = await world.database.db
      .selectFrom('quotes')
      .select('quote_id')
      .where('request', '=', pr)
      .executeTakeFirstOrThrow();
    expect(verify).not.toContain(quote_id);
    expect(JSON.stringify((await request(verify, '')).body)).not.toContain(quote_id);
  });

  it('of an unknown token is not found, and that is not to be cached', async () => {
    const { status, headers, body } = await request(world.base, path('0'.repeat(64)));
    expect({ status, body }).toEqual({ status: 200, body: NOT_FOUND });
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it.each([
    ['too short', '0'.repeat(63)],
    ['too long', '0'.repeat(65)],
    ['of other letters', 'g'.repeat(64)],
    ['longer than a path parameter usually may be', '0'.repeat(5_000)],
    ['encoded wrongly', `%zz${'0'.repeat(61)}`],
    ['encoded as what is no text', `%ff${'0'.repeat(61)}`],
    ['with a zero byte', `%00${'0'.repeat(63)}`],
  ])('with a token that is %s is not found either', async (_case, token) => {
    const { status, headers, body } = await plainRequest(world.base, path(token));
    expect({ status, body }).toEqual({ status: 200, body: NOT_FOUND });
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });

  it('in upper case is not found: a token is 64 lowercase characters', async () => {
    const { verify } = await world.askInvoice(world.newWallet(), 21);
    const token = verify.slice(-64).toUpperCase();
    expect((await request(world.base, path(token))).body).toEqual(NOT_FOUND);
  });
});

function path(token: string): string {
  return `/lnurl/verify/${token}`;
}

/** How often the mint was asked for quotes that it has; new ones and its socket do not count. */
function questionsAboutQuotes({ mint }: World): number {
  const { requestCounts } = mint;
  return (
    requestCounts['GET /v1/mint/quote/bolt11/:id'] +
    requestCounts['POST /v1/mint/quote/bolt11/check']
  );
}

async function keepState(verify: string, state: QuoteState): Promise<void> {
  const isPaid = state !== 'UNPAID' && state !== 'EXPIRED';
  await world.database.db
    .updateTable('quotes')
    .set({ state, watch_until: null, ...(isPaid && { paid_at: new Date(), paid_seq: 1 }) })
    .where('verify_token', '=', verify.slice(-64))
    .execute();
}
