import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { giveName } from '../helpers/names.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** `GET /.well-known/nostr.json` (spec.md section 4.10), by NIP-05. */

let world: World;
let alice: TestWallet;

beforeAll(async () => {
  world = await openWorld();
  alice = world.newWallet();
  await giveName(world.database, alice.pubkey, 'alice');
});

afterAll(() => world.close());

const NOBODY = { names: {}, relays: {} };

describe('a name lookup', () => {
  it('gives the key of a name to any web page', async () => {
    const { status, headers, body } = await lookUp('?name=alice');
    expect({ status, body }).toEqual({
      status: 200,
      body: { names: { alice: alice.pubkey }, relays: {} },
    });
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('content-type')).toMatch(/^application\/json/);
  });

  it('reads a name in any case and answers it in lower case', async () => {
    expect((await lookUp('?name=ALICE')).body.names).toEqual({ alice: alice.pubkey });
  });

  it.each([
    ['no name', ''],
    ['an empty name', '?name='],
    ['an unknown name', '?name=bob'],
    ['the name of the host itself', '?name=_'],
    ['what can be no name', '?name=%F0%9F%A5%9C%20or%20%27'],
    ['a name of JavaScript', '?name=constructor'],
    ['an npub', `?name=npub1${'q'.repeat(58)}`],
    ['a name beyond all length', `?name=${'x'.repeat(5_000)}`],
  ])('for %s is empty', async (_case, query) => {
    const { status, body } = await lookUp(query);
    expect({ status, body }).toEqual({ status: 200, body: NOBODY });
  });

  it('for two names at once is refused, and says why', async () => {
    const { status, body } = await lookUp('?name=alice&name=bob');
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: 'name: must be given once' },
    });
  });

  it('that fails inside says so in the body, with 200', async () => {
    const { db } = world.database;
    await db.schema.alterTable('users').renameTo('lost').execute();
    const { status, headers, body } = await lookUp('?name=notaskedbefore');
    await db.schema.alterTable('lost').renameTo('users').execute();
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        error: true,
        message: expect.stringMatching(
          /^The server could not complete the request\. \(id: [0-9a-f]{8}\)$/,
        ),
      },
    });
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect((await lookUp('?name=alice')).body.names).toEqual({ alice: alice.pubkey });
  });
});

function lookUp(query: string): Promise<ApiAnswer> {
  return request(world.base, `/.well-known/nostr.json${query}`);
}
