import { expect, it } from 'vitest';
import { EcashClient } from '../../../src/mints/ecash-client.ts';
import type { GuardedRequest } from '../../../src/net/guarded-fetch.ts';
import { KeysetCache } from '../../../src/usernames/ecash/keyset-cache.ts';
import { FakeMintKeyset } from '../../helpers/mints/fake-mint-keyset.ts';

// test/acceptance/username-purchase-edge-cases.test.ts has a mint that changes its keyset.

const MINT_URL = 'https://mint.example';
const MINUTE_MS = 60_000;
const { keyset, keys } = new FakeMintKeyset();
const { keys: otherKeys } = new FakeMintKeyset();

let nowMs = 0;

it('requests the keysets and the keys of a mint once, and the keysets again after 5 minutes', async () => {
  const { cache, paths } = createCache();
  const results = [cache.getKeys(MINT_URL, keyset.id), cache.getKeys(MINT_URL, keyset.id)];
  expect(await Promise.all(results)).toEqual([keys, keys]);
  expect(await cache.getKeysets(MINT_URL)).toEqual([keyset]);
  expect(paths).toEqual(['/v1/keysets', `/v1/keys/${keyset.id}`]);
  nowMs += 6 * MINUTE_MS;
  expect(await cache.getKeysets(MINT_URL)).toEqual([keyset]);
  expect(await cache.getKeys(MINT_URL, keyset.id)).toEqual(keys);
  expect(paths.slice(2)).toEqual(['/v1/keysets']);
});

it('returns keysets that are at most 5 minutes old while the mint does not respond', async () => {
  const { cache, mint } = createCache();
  await cache.getKeysets(MINT_URL);
  mint.isDown = true;
  nowMs += MINUTE_MS;
  expect(await cache.refreshKeysets(MINT_URL)).toBeNull();
  expect(await cache.getKeysets(MINT_URL)).toEqual([keyset]);
  nowMs += 5 * MINUTE_MS;
  expect(await cache.getKeysets(MINT_URL)).toBeNull();
  mint.isDown = false;
  expect(await cache.getKeysets(MINT_URL)).toEqual([keyset]);
});

it('does not return keys that do not belong to the keyset', async () => {
  const { cache, mint } = createCache();
  mint.keys = otherKeys.keys;
  expect(await cache.getKeys(MINT_URL, keyset.id)).toBeNull();
  mint.keys = keys.keys;
  expect(await cache.getKeys(MINT_URL, keyset.id)).toEqual(keys);
});

function createCache() {
  const mint = { isDown: false, keys: keys.keys };
  const paths: string[] = [];
  const request = async ({ url }: GuardedRequest) => {
    const path = url.slice(MINT_URL.length);
    paths.push(path);
    const listed = { id: keyset.id, unit: 'sat', active: true, input_fee_ppk: 0 };
    const entry = path === '/v1/keysets' ? listed : { id: keyset.id, keys: mint.keys };
    return {
      outcome: 'responded' as const,
      status: mint.isDown ? 500 : 200,
      headers: new Map<string, string>(),
      json: { keysets: [entry] },
      text: '',
    };
  };
  const client = new EcashClient({ fetch: { request }, clock: () => nowMs });
  return { cache: new KeysetCache(client, () => nowMs), mint, paths };
}
