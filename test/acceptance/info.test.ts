import { afterAll, beforeAll, expect, it } from 'vitest';
import { request } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** `GET /api/v2/info` (spec.md section 4.1). */

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

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
