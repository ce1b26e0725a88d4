import { createHash } from 'node:crypto';
import { finalizeEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { QuoteState } from '../../src/database/schema.ts';
import { giveName } from '../helpers/names.ts';
import { plainRequest } from '../helpers/plain-http.ts';
import { startRelay } from '../helpers/relays.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, serveBeside, type World } from '../helpers/world.ts';

/** What anyone may look up: the service's info, names and verify URLs (spec.md sections 4.1, 4.9, 4.10). */

let world: World;
let one: TestRelay;
let two: TestRelay;

beforeAll(async () => {
  [one, two] = [await TestRelay.start(), await TestRelay.start()];
  world = await openWorld({
    env: { ZAP_RELAYS: `${one.url},${two.url}` },
    // The clock stands still, so that no quote becomes due for a poll.
    surroundings: { clock: new TestClock().now },
  });
});

afterAll(async () => {
  await world.close();
  await Promise.all([one.close(), two.close()]);
});

describe('GET /api/v2/info', () => {
  it('tells anybody the version and that no usernames are sold, cacheable for five minutes', async () => {
    const { status, headers, body } = await request(world.base, '/api/v2/info');
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('public, max-age=300');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      error: false,
      data: { version: 2, features: { username: { enabled: false } } },
    });
  });

  it('is found behind a doubled and before a trailing slash, with any query', async () => {
    for (const path of ['//api/v2/info', '/api//v2/info/', '/api/v2/info?x=1&x=2']) {
      expect((await request(world.base, path)).status, path).toBe(200);
    }
  });

  it('answers HEAD without a body', async () => {
    const { status, headers, body } = await request(world.base, '/api/v2/info', { method: 'HEAD' });
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(body).toBeNull();
  });
});

describe('a name lookup', () => {
  const NOBODY = { names: {}, relays: {} };

  it.each([
    ['no name', ''],
    ['an unknown name', '?name=bob'],
    ['what can be no name', '?name=%F0%9F%A5%9C%20or%20%27'],
    ['a name of JavaScript', '?name=constructor'],
    ['an npub', `?name=npub1${'q'.repeat(58)}`],
    ['a name beyond all length', `?name=${'x'.repeat(5_000)}`],
  ])('for %s is empty, and asks no relay', async (_case, query) => {
    const { status, body } = await request(world.base, `/.well-known/nostr.json${query}`);
    expect({ status, body }).toEqual({ status: 200, body: NOBODY });
    expect(one.connections.opened).toBe(0);
  });

  it('for two names at once is refused, and says why', async () => {
    const { status, body } = await request(world.base, '/.well-known/nostr.json?name=a&name=b');
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: 'name: must be given once' },
    });
  });

  it('gives the key of a name in any case, to any web page', async () => {
    const alice = await owner('alice');
    const { headers, body } = await request(world.base, '/.well-known/nostr.json?name=ALICE');
    expect(body).toEqual({ names: { alice: alice.pubkey }, relays: {} });
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('content-type')).toMatch(/^application\/json/);
  });

  it('gives the relays that the owner published, by key', async () => {
    const alice = await owner('albert');
    two.store(
      relayList(alice, 1, [
        ['r', 'wss://Home.example/'],
        ['r', 'wss://inbox.example', 'read'],
        ['r', 'wss://blog.example', 'write'],
      ]),
    );
    expect(await lookUp('albert')).toEqual({
      names: { albert: alice.pubkey },
      relays: { [alice.pubkey]: ['wss://home.example', 'wss://blog.example'] },
    });
  });

  it('gives the newest list that any relay of the operator has', async () => {
    const carol = await owner('carol');
    one.store(relayList(carol, 2, [['r', 'wss://new.example']]));
    two.store(relayList(carol, 1, [['r', 'wss://old.example']]));
    expect((await lookUp('carol')).relays).toEqual({ [carol.pubkey]: ['wss://new.example'] });
  });

  it('gives every list that one relay has, to many at once, where another never answers', async () => {
    const tarpit = await startRelay({ handshake: 'silent' });
    const service = await serveBeside(world, { ZAP_RELAYS: `${tarpit.url},${one.url}` });
    const owners = await Promise.all(Array.from({ length: 10 }, (_, n) => owner(`heidi${n}`)));
    for (const heidi of owners) {
      one.store(relayList(heidi, 1, [['r', 'wss://home.example']]));
    }
    const answers = await Promise.all(owners.map((_, n) => lookUp(`heidi${n}`, service.url)));
    expect(answers.map(({ relays }) => relays)).toEqual(
      owners.map(({ pubkey }) => ({ [pubkey]: ['wss://home.example'] })),
    );
  });

  it('is answered where no relay can be reached', async () => {
    const grace = await owner('grace');
    await Promise.all([one.stop(), two.stop()]);
    expect(await lookUp('grace')).toEqual({ names: { grace: grace.pubkey }, relays: {} });
    await Promise.all([one.restart(), two.restart()]);
  });
});

describe('a verify url', () => {
  const NOT_FOUND = { status: 'ERROR', reason: 'Not found' };

  it('asks no mint', async () => {
    const { verify } = await world.askInvoice(world.newWallet(), 21);
    const before = pollsOf(world);
    await Promise.all(Array.from({ length: 20 }, () => request(verify, '')));
    // The service itself may poll a mint's first quote once.
    expect(pollsOf(world)).toBeLessThanOrEqual(before + 1);
  });

  it('says of a fresh invoice that it is not settled', async () => {
    const { pr, verify } = await world.askInvoice(world.newWallet(), 21);
    const { status, headers, body } = await request(verify, '');
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({ status: 'OK', settled: false, preimage: null, pr });
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

  it('of an unknown token is not found, and that is not to be cached', async () => {
    const { status, headers, body } = await request(world.base, path('0'.repeat(64)));
    expect({ status, body }).toEqual({ status: 200, body: NOT_FOUND });
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it.each([
    ['too short', '0'.repeat(63)],
    ['in upper case', 'A'.repeat(64)],
    ['longer than a path parameter usually may be', '0'.repeat(5_000)],
    ['encoded wrongly', `%zz${'0'.repeat(61)}`],
    ['encoded as what is no text', `%ff${'0'.repeat(61)}`],
  ])('with a token that is %s is not found either', async (_case, token) => {
    const { status, headers, body } = await plainRequest(world.base, path(token));
    expect({ status, body }).toEqual({ status: 200, body: NOT_FOUND });
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });
});

async function owner(name: string): Promise<TestWallet> {
  const wallet = world.newWallet();
  await giveName(world.database, wallet.pubkey, name);
  return wallet;
}

async function lookUp(name?: string, base = world.base) {
  const query = name === undefined ? '' : `?name=${name}`;
  const { status, body } = await request(base, `/.well-known/nostr.json${query}`);
  expect(status).toBe(200);
  return body;
}

/** @param createdAt Unix seconds; only which one is later matters */
function relayList(wallet: TestWallet, createdAt: number, tags: string[][]) {
  const template = { kind: 10_002, created_at: createdAt, content: '', tags };
  return finalizeEvent(template, wallet.secretKey);
}

function path(token: string): string {
  return `/lnurl/verify/${token}`;
}

/** How often the mint was asked about quotes that it has. */
function pollsOf({ mint }: World): number {
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
    .set({ state, watch_until: null, ...(isPaid && { paid_at: Date.now(), paid_seq: 1 }) })
    .where('verify_hash', '=', createHash('sha256').update(verify.slice(-64)).digest('hex'))
    .execute();
}
