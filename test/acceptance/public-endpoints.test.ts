import { createHash } from 'node:crypto';
import { finalizeEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { QuoteState } from '../../src/database/schema.ts';
import { expectErrorResponse, sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import {
  createTestEnvironment,
  type TestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

let environment: TestEnvironment;
let firstRelay: FakeNostrRelay;
let secondRelay: FakeNostrRelay;

beforeAll(async () => {
  [firstRelay, secondRelay] = [await FakeNostrRelay.start(), await FakeNostrRelay.start()];
  environment = await createTestEnvironment({
    env: { ZAP_RELAYS: `${firstRelay.url},${secondRelay.url}` },
    // The clock never advances, so no quote becomes due for a poll.
    overrides: { clock: new TestClock().now },
  });
});

afterAll(async () => {
  await environment.close();
  await Promise.all([firstRelay.close(), secondRelay.close()]);
});

describe('GET /api/v2/info', () => {
  it('returns the version and disabled usernames, cacheable for five minutes', async () => {
    const { status, headers, body } = await requestJson(environment.origin, '/api/v2/info');
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('public, max-age=300');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      error: false,
      data: { version: 2, features: { username: { enabled: false } } },
    });
  });
});

describe('GET /.well-known/nostr.json', () => {
  it.each(['', '?name=bob', '?name=constructor', `?name=${'x'.repeat(5_000)}`])(
    'returns an empty result for the query %j without querying relays',
    async (query) => {
      const { status, body } = await lookUpNip05(query);
      expect({ status, body }).toEqual({ status: 200, body: { names: {}, relays: {} } });
      expect(firstRelay.connections.opened).toBe(0);
    },
  );

  it('returns 400 if name is given twice', async () => {
    const body = { error: true, code: 'invalid', message: 'name: must be given once' };
    expect(await lookUpNip05('?name=a&name=b')).toMatchObject({ status: 400, body });
  });

  it('returns the key of a name in any case, with CORS headers', async () => {
    const alice = await createOwner('alice');
    const { headers, body } = await lookUpNip05('?name=ALICE');
    expect(body).toEqual({ names: { alice: alice.pubkey }, relays: {} });
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('content-type')).toMatch(/^application\/json/);
  });

  it('returns the write relays that the owner published', async () => {
    const albert = await createOwner('albert');
    const tags = [
      ['r', 'wss://Home.example/'],
      ['r', 'wss://inbox.example', 'read'],
      ['r', 'wss://blog.example', 'write'],
    ];
    const relayList = { kind: 10_002, created_at: 1, content: '', tags };
    secondRelay.storeEvent(finalizeEvent(relayList, albert.secretKey));
    expect((await lookUpNip05('?name=albert')).body).toEqual({
      names: { albert: albert.pubkey },
      relays: { [albert.pubkey]: ['wss://home.example', 'wss://blog.example'] },
    });
  });

  it('returns the key if no relay is reachable', async () => {
    const grace = await createOwner('grace');
    await Promise.all([firstRelay.stop(), secondRelay.stop()]);
    const { body } = await lookUpNip05('?name=grace');
    expect(body).toEqual({ names: { grace: grace.pubkey }, relays: {} });
    await Promise.all([firstRelay.restart(), secondRelay.restart()]);
  });
});

describe('GET /lnurl/verify/:token', () => {
  it('sends no request to the mint', async () => {
    const { verify } = await environment.requestInvoice(environment.newWallet(), 21);
    const { requestCounts } = environment.mint;
    const countPolls = () =>
      requestCounts['GET /v1/mint/quote/bolt11/:id'] +
      requestCounts['POST /v1/mint/quote/bolt11/check'];
    const pollsBefore = countPolls();
    await Promise.all(Array.from({ length: 20 }, () => requestJson(verify, '')));
    // The service may poll the first quote of the mint once, independently of these requests.
    expect(countPolls()).toBeLessThanOrEqual(pollsBefore + 1);
  });

  it('reports a new invoice as not settled', async () => {
    const { pr, verify } = await environment.requestInvoice(environment.newWallet(), 21);
    const { status, headers, body } = await requestJson(verify, '');
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({ status: 'OK', settled: false, preimage: null, pr });
  });

  it.each<[QuoteState, boolean]>([
    ['EXPIRED', false],
    ['INFLIGHT', false],
    ['PAID', true],
    ['ISSUED', true],
  ])('reports a stored quote in state %s with settled = %s', async (state, settled) => {
    const { verify } = await environment.requestInvoice(environment.newWallet(), 21);
    await updateStoredState(verify, state);
    expect((await requestJson(verify, '')).body).toMatchObject({ status: 'OK', settled });
  });

  it.each([
    ['unknown', '0'.repeat(64)],
    ['in upper case', 'A'.repeat(64)],
  ])('returns "Not found" for a token that is %s', async (_case, token) => {
    const response = await sendRawRequest(environment.origin, `/lnurl/verify/${token}`);
    expectErrorResponse(response, 200, { status: 'ERROR', reason: 'Not found' });
    expect(response.headers.get('cache-control')).toBe('no-store');
  });
});

async function createOwner(name: string): Promise<RecipientClient> {
  const wallet = environment.newWallet();
  await assignUsername(environment.database, wallet.pubkey, name);
  return wallet;
}

function lookUpNip05(query: string) {
  return requestJson(environment.origin, `/.well-known/nostr.json${query}`);
}

async function updateStoredState(verifyUrl: string, state: QuoteState): Promise<void> {
  const isPaid = state !== 'UNPAID' && state !== 'EXPIRED';
  const tokenHash = createHash('sha256').update(verifyUrl.slice(-64)).digest('hex');
  await environment.database.db
    .updateTable('quotes')
    .set({ state, watch_until: null, ...(isPaid && { paid_at: Date.now(), paid_seq: 1 }) })
    .where('verify_token_hash', '=', tokenHash)
    .execute();
}
