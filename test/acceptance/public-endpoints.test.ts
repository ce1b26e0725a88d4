import { createHash } from 'node:crypto';
import { finalizeEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { QuoteState } from '../../src/database/schema.ts';
import { assignUsername } from '../helpers/names.ts';
import { sendRawRequest } from '../helpers/raw-http.ts';
import { startRelay } from '../helpers/start-test-relay.ts';
import { TestClock } from '../helpers/test-clock.ts';
import {
  createTestEnvironment,
  type TestEnvironment,
  useAdditionalService,
} from '../helpers/test-environment.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { requestJson, type TestWallet } from '../helpers/test-wallet.ts';

/** Unauthenticated endpoints: info, name lookup and verify URLs (spec.md sections 4.1, 4.9, 4.10). */

let world: TestEnvironment;
let firstRelay: TestRelay;
let secondRelay: TestRelay;

beforeAll(async () => {
  [firstRelay, secondRelay] = [await TestRelay.start(), await TestRelay.start()];
  world = await createTestEnvironment({
    env: { ZAP_RELAYS: `${firstRelay.url},${secondRelay.url}` },
    // A clock that never advances, so that no quote becomes due for a poll.
    overrides: { clock: new TestClock().now },
  });
});

afterAll(async () => {
  await world.close();
  await Promise.all([firstRelay.close(), secondRelay.close()]);
});

describe('GET /api/v2/info', () => {
  it('returns the version and disabled usernames, cacheable for five minutes', async () => {
    const { status, headers, body } = await requestJson(world.origin, '/api/v2/info');
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('public, max-age=300');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      error: false,
      data: { version: 2, features: { username: { enabled: false } } },
    });
  });

  it('ignores duplicate slashes, a trailing slash and query parameters', async () => {
    for (const path of ['//api/v2/info', '/api//v2/info/', '/api/v2/info?x=1&x=2']) {
      expect((await requestJson(world.origin, path)).status, path).toBe(200);
    }
  });

  it('responds to HEAD without a body', async () => {
    const { status, headers, body } = await requestJson(world.origin, '/api/v2/info', {
      method: 'HEAD',
    });
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    expect(body).toBeNull();
  });
});

describe('GET /.well-known/nostr.json', () => {
  const EMPTY = { names: {}, relays: {} };

  it.each([
    ['no name', ''],
    ['an unknown name', '?name=bob'],
    ['an invalid name', '?name=%F0%9F%A5%9C%20or%20%27'],
    ['a JavaScript property name', '?name=constructor'],
    ['an npub', `?name=npub1${'q'.repeat(58)}`],
    ['an overlong name', `?name=${'x'.repeat(5_000)}`],
  ])('returns an empty result for %s without querying relays', async (_case, query) => {
    const { status, body } = await requestJson(world.origin, `/.well-known/nostr.json${query}`);
    expect({ status, body }).toEqual({ status: 200, body: EMPTY });
    expect(firstRelay.connections.opened).toBe(0);
  });

  it('returns 400 if name is given twice', async () => {
    const { status, body } = await requestJson(
      world.origin,
      '/.well-known/nostr.json?name=a&name=b',
    );
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: 'name: must be given once' },
    });
  });

  it('returns the key of a name in any case, with CORS headers', async () => {
    const alice = await createOwner('alice');
    const { headers, body } = await requestJson(world.origin, '/.well-known/nostr.json?name=ALICE');
    expect(body).toEqual({ names: { alice: alice.pubkey }, relays: {} });
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('content-type')).toMatch(/^application\/json/);
  });

  it('returns the write relays that the owner published', async () => {
    const alice = await createOwner('albert');
    secondRelay.store(
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

  it('returns the newest relay list of all configured relays', async () => {
    const carol = await createOwner('carol');
    firstRelay.store(relayList(carol, 2, [['r', 'wss://new.example']]));
    secondRelay.store(relayList(carol, 1, [['r', 'wss://old.example']]));
    expect((await lookUp('carol')).relays).toEqual({ [carol.pubkey]: ['wss://new.example'] });
  });

  it('returns every relay list to parallel requests while another relay does not respond', async () => {
    const tarpit = await startRelay({ handshake: 'silent' });
    const service = await useAdditionalService(world, {
      ZAP_RELAYS: `${tarpit.url},${firstRelay.url}`,
    });
    const owners = await Promise.all(
      Array.from({ length: 10 }, (_, n) => createOwner(`heidi${n}`)),
    );
    for (const heidi of owners) {
      firstRelay.store(relayList(heidi, 1, [['r', 'wss://home.example']]));
    }
    const responses = await Promise.all(owners.map((_, n) => lookUp(`heidi${n}`, service.url)));
    expect(responses.map(({ relays }) => relays)).toEqual(
      owners.map(({ pubkey }) => ({ [pubkey]: ['wss://home.example'] })),
    );
  });

  it('returns the key if no relay is reachable', async () => {
    const grace = await createOwner('grace');
    await Promise.all([firstRelay.stop(), secondRelay.stop()]);
    expect(await lookUp('grace')).toEqual({ names: { grace: grace.pubkey }, relays: {} });
    await Promise.all([firstRelay.restart(), secondRelay.restart()]);
  });
});

describe('GET /lnurl/verify/:token', () => {
  const NOT_FOUND = { status: 'ERROR', reason: 'Not found' };

  it('sends no request to the mint', async () => {
    const { verify } = await world.requestInvoice(world.newWallet(), 21);
    const before = countPolls(world);
    await Promise.all(Array.from({ length: 20 }, () => requestJson(verify, '')));
    // The service itself may poll the mint's first quote once.
    expect(countPolls(world)).toBeLessThanOrEqual(before + 1);
  });

  it('reports a new invoice as not settled', async () => {
    const { pr, verify } = await world.requestInvoice(world.newWallet(), 21);
    const { status, headers, body } = await requestJson(verify, '');
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
  ])('reports a stored quote in state %s as settled: %s', async (state, settled) => {
    const { verify } = await world.requestInvoice(world.newWallet(), 21);
    await storeState(verify, state);
    expect((await requestJson(verify, '')).body).toMatchObject({ status: 'OK', settled });
  });

  it('returns "Not found" without caching for an unknown token', async () => {
    const { status, headers, body } = await requestJson(world.origin, verifyPath('0'.repeat(64)));
    expect({ status, body }).toEqual({ status: 200, body: NOT_FOUND });
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it.each([
    ['too short', '0'.repeat(63)],
    ['in upper case', 'A'.repeat(64)],
    ['longer than Fastify’s default limit', '0'.repeat(5_000)],
    ['wrongly encoded', `%zz${'0'.repeat(61)}`],
    ['not UTF-8', `%ff${'0'.repeat(61)}`],
  ])('returns "Not found" for a token that is %s', async (_case, token) => {
    const { status, headers, body } = await sendRawRequest(world.origin, verifyPath(token));
    expect({ status, body }).toEqual({ status: 200, body: NOT_FOUND });
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });
});

async function createOwner(name: string): Promise<TestWallet> {
  const wallet = world.newWallet();
  await assignUsername(world.database, wallet.pubkey, name);
  return wallet;
}

async function lookUp(name?: string, base = world.origin) {
  const query = name === undefined ? '' : `?name=${name}`;
  const { status, body } = await requestJson(base, `/.well-known/nostr.json${query}`);
  expect(status).toBe(200);
  return body;
}

/** @param createdAt Unix seconds; only the order matters */
function relayList(wallet: TestWallet, createdAt: number, tags: string[][]) {
  const template = { kind: 10_002, created_at: createdAt, content: '', tags };
  return finalizeEvent(template, wallet.secretKey);
}

function verifyPath(token: string): string {
  return `/lnurl/verify/${token}`;
}

/** Counts the requests for the state of quotes. */
function countPolls({ mint }: TestEnvironment): number {
  const { requestCounts } = mint;
  return (
    requestCounts['GET /v1/mint/quote/bolt11/:id'] +
    requestCounts['POST /v1/mint/quote/bolt11/check']
  );
}

async function storeState(verify: string, state: QuoteState): Promise<void> {
  const isPaid = state !== 'UNPAID' && state !== 'EXPIRED';
  await world.database.db
    .updateTable('quotes')
    .set({ state, watch_until: null, ...(isPaid && { paid_at: Date.now(), paid_seq: 1 }) })
    .where('verify_token_hash', '=', createHash('sha256').update(verify.slice(-64)).digest('hex'))
    .execute();
}
