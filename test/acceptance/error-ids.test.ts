import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { LogCapture } from '../helpers/log-capture.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** Who meets an error of ours is given its id, and the log has the rest under it. */

const TABLES = ['users', 'quotes', 'usernames'];

const captured = new LogCapture('warn');
let world: World;
let wallet: TestWallet;
let verify: string;

beforeAll(async () => {
  world = await openWorld({
    env: { USERNAME_PRICE_SAT: '0' },
    // Polls would log of the broken database too.
    surroundings: { log: captured.log, scanIntervalMs: 3_600_000 },
  });
  wallet = world.newWallet();
  ({ verify } = await world.askInvoice(wallet, 21));
});

afterAll(() => world.close());

beforeEach(() => {
  captured.lines.length = 0;
});

describe('a request that fails inside', () => {
  it.each<[string, number, 'message' | 'reason', string, () => Promise<ApiAnswer>]>([
    ['a list', 500, 'message', '/api/v2/wallet/quotes', () => wallet.get('/api/v2/wallet/quotes')],
    [
      'a change of settings',
      500,
      'message',
      '/api/v2/user/lock',
      () => wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: true }),
    ],
    [
      'a request for a name',
      500,
      'message',
      '/api/v2/user/username',
      () => wallet.send('POST', '/api/v2/user/username', { username: 'alice' }),
    ],
    [
      'discovery',
      500,
      'reason',
      '/.well-known/lnurlp/:user',
      // Of somebody who was not asked for before.
      () => request(world.base, `/.well-known/lnurlp/${world.newWallet().npub}`),
    ],
    [
      'an invoice',
      500,
      'reason',
      '/.well-known/lnurlp/:user',
      () => request(world.base, `/.well-known/lnurlp/${wallet.npub}?amount=1000`),
    ],
    ['a verification', 500, 'reason', '/lnurl/verify/:token', () => request(verify, '')],
    [
      'a name lookup',
      200,
      'message',
      '/.well-known/nostr.json',
      () => request(world.base, '/.well-known/nostr.json?name=alice'),
    ],
  ])(
    'for %s names the line of the log, and nothing else of it',
    async (_case, status, field, route, ask) => {
      const answer = await withoutTables(ask);
      const [, id] = /^The server could not complete the request\. \(id: ([0-9a-f]{8})\)$/.exec(
        answer.body[field],
      ) ?? [null, 'no id'];
      expect(answer).toMatchObject({ status });
      expect(Object.keys(answer.body).toSorted()).toEqual(
        field === 'message' ? ['error', 'message'] : ['reason', 'status'],
      );
      expect(loggedErrors()).toEqual([
        expect.objectContaining({ errorId: id, route, msg: 'a request failed' }),
      ]);
      expect(loggedErrors()[0].err.message).toContain('does not exist');
    },
  );

  it('has an id of its own each time', async () => {
    const answers = await withoutTables(() =>
      Promise.all([1, 2, 3].map(() => wallet.get('/api/v2/wallet/quotes'))),
    );
    const ids = answers.map(({ body }) => body.message);
    expect(new Set(ids).size).toBe(3);
  });
});

describe('a request that is refused', () => {
  it('has no id, and no line of the log that somebody must act on', async () => {
    const answers = await Promise.all([
      request(world.base, '/nowhere'),
      request(world.base, '/api/v2/user/info'),
      request(world.base, '/.well-known/lnurlp/nobody'),
      request(world.base, `/lnurl/verify/${'0'.repeat(64)}`),
      wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: 'perhaps' }),
    ]);
    for (const { body } of answers) {
      expect(JSON.stringify(body)).not.toContain('(id:');
    }
    expect(captured.lines).toEqual([]);
  });
});

/** What is asked while the database has lost its tables. */
async function withoutTables<T>(ask: () => Promise<T>): Promise<T> {
  const { db } = world.database;
  for (const table of TABLES) {
    await sql`alter table ${sql.table(table)} rename to ${sql.table(`${table}_lost`)}`.execute(db);
  }
  try {
    return await ask();
  } finally {
    for (const table of TABLES) {
      await sql`alter table ${sql.table(`${table}_lost`)} rename to ${sql.table(table)}`.execute(
        db,
      );
    }
  }
}

function loggedErrors() {
  return captured.lines.map((line) => JSON.parse(line)).filter(({ errorId }) => errorId);
}
