import { finalizeEvent } from 'nostr-tools';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { giveName } from '../helpers/names.ts';
import { startBeside } from '../helpers/second-service.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** `relays` of `GET /.well-known/nostr.json` (spec.md section 4.10), by NIP-05 and NIP-65. */

let world: World;
let one: TestRelay;
let two: TestRelay;

beforeAll(async () => {
  [one, two] = [await TestRelay.start(), await TestRelay.start()];
  world = await openWorld({ env: { ZAP_RELAYS: `${one.url},${two.url}` } });
});

afterAll(async () => {
  await world.close();
  await Promise.all([one.close(), two.close()]);
});

describe('a name lookup', () => {
  it('asks no relay for a name that nobody has', async () => {
    expect(await lookUp('nobody')).toEqual({ names: {}, relays: {} });
    expect(await lookUp()).toEqual({ names: {}, relays: {} });
    expect(one.connections.opened).toBe(0);
  });

  it('gives the relays that the owner published, by key', async () => {
    const alice = await owner('alice');
    two.store(
      relayList(alice, 1, [
        ['r', 'wss://Home.example/'],
        ['r', 'wss://inbox.example', 'read'],
        ['r', 'wss://blog.example', 'write'],
      ]),
    );
    expect(await lookUp('alice')).toEqual({
      names: { alice: alice.pubkey },
      relays: { [alice.pubkey]: ['wss://home.example', 'wss://blog.example'] },
    });
  });

  it('asks nobody again for a while', async () => {
    const bob = await owner('bob');
    one.store(relayList(bob, 1, [['r', 'wss://first.example']]));
    const first = await lookUp('bob');
    one.store(relayList(bob, 2, [['r', 'wss://second.example']]));
    expect(await lookUp('BOB')).toEqual(first);
    expect(first.relays).toEqual({ [bob.pubkey]: ['wss://first.example'] });
  });

  it('gives the newest list that any relay of the operator has', async () => {
    const carol = await owner('carol');
    one.store(relayList(carol, 2, [['r', 'wss://new.example']]));
    two.store(relayList(carol, 1, [['r', 'wss://old.example']]));
    expect((await lookUp('carol')).relays).toEqual({ [carol.pubkey]: ['wss://new.example'] });
  });

  it('gives no relays of an owner who published none', async () => {
    const dave = await owner('dave');
    expect(await lookUp('dave')).toEqual({ names: { dave: dave.pubkey }, relays: {} });
  });

  it('gives no relays that the owner did not sign', async () => {
    const erin = await owner('erin');
    const signed = relayList(erin, 1, [['r', 'wss://home.example']]);
    one.store({ ...signed, tags: [['r', 'wss://thief.example']] });
    expect(await lookUp('erin')).toEqual({ names: { erin: erin.pubkey }, relays: {} });
  });

  it('gives what it knows where a relay is too slow, and the rest to who asks next', async () => {
    const frank = await owner('frank');
    one.store(relayList(frank, 1, [['r', 'wss://old.example']]));
    two.store(relayList(frank, 2, [['r', 'wss://new.example']]));
    const release = two.hold();
    expect((await lookUp('frank')).relays).toEqual({ [frank.pubkey]: ['wss://old.example'] });
    release();
    await expect
      .poll(async () => (await lookUp('frank')).relays)
      .toEqual({ [frank.pubkey]: ['wss://new.example'] });
  });

  it('gives every list that one relay has, to many at once, where another never answers', async () => {
    const tarpit = await TestRelay.start({ handshake: 'silent' });
    onTestFinished(() => tarpit.close());
    const service = await startBeside(world, { ZAP_RELAYS: `${tarpit.url},${one.url}` });
    onTestFinished(() => service.stop());
    const owners = await Promise.all(Array.from({ length: 30 }, (_, n) => owner(`heidi${n}`)));
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
