import { nip19 } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Db, transaction } from '../../src/database/transaction.ts';
import {
  claimUsername,
  holdUsername,
  reserveUsername,
} from '../../src/usernames/username-store.ts';
import { sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const HOUR_MS = 60 * 60_000;
const MAX_LOOKUPS_PER_MINUTE = 120;

const clock = new TestClock();
const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: '21', USERNAME_RESERVED: 'satoshi', TRUST_PROXY: '127.0.0.1' },
  overrides: { clock: clock.now },
});
let db: Db;
let addressCount = 0;

beforeAll(() => {
  db = environment.database.db;
});

describe('GET /api/v2/names/{name}', () => {
  it('reports a free name as available, in lower case and without authentication', async () => {
    const path = '/api/v2/names/FreeName';
    const { status, headers, body } = await requestJson(environment.origin, path);
    expect({ status, body }).toEqual({
      status: 200,
      body: { error: false, data: { name: 'freename', available: true } },
    });
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('access-control-allow-origin')).toBe('*');
  });

  it.each([
    ['a name that is too short', 'ab'],
    ['a name with a hyphen', 'al-ice'],
    ['a name that is not ASCII', '%C3%A5lice'],
    ['a name that looks like an npub', 'NPUB1abc'],
    ['a secret key', nip19.nsecEncode(new Uint8Array(32).fill(7))],
  ])('reports %s as invalid, and does not repeat it', async (_case, name) => {
    const { status, body } = await sendRawRequest(environment.origin, `/api/v2/names/${name}`);
    expect({ status, body }).toEqual({
      status: 200,
      body: { error: false, data: { available: false, reason: 'invalid' } },
    });
  });

  it.each(['admin', 'SATOSHI', 'npubl8q7x', `npubi${'q'.repeat(58)}`, 'postmaster', 'wallet'])(
    'reports %s as reserved',
    async (name) => {
      const reserved = { name: name.toLowerCase(), available: false, reason: 'reserved' };
      expect(await lookUp(name)).toEqual(reserved);
    },
  );

  it('reports a name that the operator reserved later as reserved', async () => {
    await reserveUsername(db, 'later', clock.nowMs);
    expect(await lookUp('later')).toMatchObject({ available: false, reason: 'reserved' });
  });

  it.each([
    ['used by its owner', assignTo],
    [
      'held for its previous owner',
      async (name: string) => {
        const owner = await assignTo(name);
        await assignUsername(environment.database, owner.pubkey, `${name}next`);
      },
    ],
    [
      'held for an unfinished purchase',
      async (name: string) => {
        const { pubkey } = environment.newWallet();
        await holdUsername(db, name, { pubkey, purchaseId: name, nowMs: clock.nowMs });
      },
    ],
  ])('reports a name that is %s as taken', async (state, makeTaken) => {
    const name = state.replaceAll(' ', '');
    await makeTaken(name);
    expect(await lookUp(name)).toEqual({ name, available: false, reason: 'taken' });
    expect((await requestUsername(environment.newWallet(), name)).status).toBe(409);
  });

  it('reports a released name as available when the grace period has ended', async () => {
    const owner = await assignTo('released');
    const claim = { pubkey: owner.pubkey, nowMs: clock.nowMs, graceMs: HOUR_MS };
    await transaction(db, (tx) => claimUsername(tx, 'renamed', claim));
    expect(await lookUp('released')).toMatchObject({ available: false, reason: 'taken' });
    clock.advance(HOUR_MS);
    expect(await lookUp('released')).toEqual({ name: 'released', available: true });
  });

  it('reports a free and a taken name as not for sale if usernames cannot be bought', async () => {
    const service = await useAdditionalService(environment, {});
    await assignTo('somename');
    for (const name of ['somename', 'othername']) {
      const { body } = await requestJson(service.url, `/api/v2/names/${name}`);
      expect(body.data).toEqual({ name, available: false, reason: 'not_for_sale' });
    }
  });
});

describe('an address over its limit for name lookups', () => {
  it('gets 429 for further names, but not for other requests', async () => {
    const address = newAddress();
    for (let count = 0; count < MAX_LOOKUPS_PER_MINUTE; count += 1) {
      expect((await requestLookup(`name${count}`, address)).status).toBe(200);
    }
    const rejected = await requestLookup('alice', address);
    expect(rejected.status).toBe(429);
    expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(rejected.body.message).toMatch(/^Too many name lookups from your IP address\. /);
    const headers = { 'x-forwarded-for': address };
    expect((await requestJson(environment.origin, '/api/v2/info', { headers })).status).toBe(200);
  });
});

async function lookUp(name: string) {
  const { status, body } = await requestLookup(name, newAddress());
  expect(status).toBe(200);
  return body.data;
}

function requestLookup(name: string, address: string) {
  const headers = { 'x-forwarded-for': address };
  return requestJson(environment.origin, `/api/v2/names/${name}`, { headers });
}

async function assignTo(name: string): Promise<RecipientClient> {
  const owner = environment.newWallet();
  await assignUsername(environment.database, owner.pubkey, name);
  return owner;
}

function newAddress(): string {
  addressCount += 1;
  return `198.51.100.${addressCount}`;
}
