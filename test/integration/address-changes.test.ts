import { randomBytes } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ADDRESS_CHANNEL, ALL_ADDRESSES } from '../../src/recipients/recipients.ts';
import { openTestDatabase } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { listenTo } from '../helpers/heard.ts';
import { giveName } from '../helpers/names.ts';
import { operate } from '../helpers/operator.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { chooseMint, setLock, useWorld } from '../helpers/world.ts';

/** Which operations notify every process that addresses changed, and what payers see afterwards. */

const world = useWorld({ env: { USERNAME_PRICE_SAT: '1' } });
let payer: EcashPayer;
let wallet: TestWallet;
let name: string;
let received: () => Promise<string[]>;

beforeAll(async () => {
  payer = await EcashPayer.open(world.mint);
});

beforeEach(async () => {
  wallet = world.newWallet();
  name = `n${randomBytes(8).toString('hex')}`;
  await giveName(world.database, wallet.pubkey, name);
  received = await listenTo(world.database, ADDRESS_CHANNEL);
});

it('changed settings notify for the npub and the name', async () => {
  expect((await chooseMint(wallet, world.mint.url)).status).toBe(200);
  expect(await notified()).toEqual([name, wallet.npub]);
  expect((await setLock(wallet, true)).status).toBe(200);
  expect(await notified()).toEqual([name, wallet.npub]);
});

it('a block and its end notify for the npub and the name', async () => {
  for (const command of ['block', 'unblock']) {
    expect(await canBePaid(wallet.npub)).toBe(command === 'block');
    await operate(world.database, ['user', command, name]);
    expect(await notified()).toEqual([name, wallet.npub]);
    expect(await canBePaid(wallet.npub)).toBe(command === 'unblock');
    expect(await canBePaid(name)).toBe(command === 'unblock');
  }
});

describe('a name', () => {
  it('that its owner leaves notifies: for one that is bought, and for an old one', async () => {
    const next = `${name}x`;
    expect(await canBePaid(name)).toBe(true);
    expect((await buyUsername(wallet, next, await payer.token(1))).status).toBe(201);
    expect(await notified()).toEqual([name, wallet.npub]);
    expect([await canBePaid(name), await canBePaid(next)]).toEqual([false, true]);

    expect((await buyUsername(wallet, name)).status).toBe(201);
    expect(await notified()).toEqual([next, wallet.npub]);
    expect([await canBePaid(name), await canBePaid(next)]).toEqual([true, false]);
  });

  it.each(['reserve', 'release'])('that the operator takes away (%s) notifies', async (command) => {
    expect(await canBePaid(name)).toBe(true);
    await operate(world.database, ['name', command, name, '--in-use']);
    expect(await notified()).toEqual([name]);
    expect(await canBePaid(name)).toBe(false);
  });
});

it('the import of an archive notifies for all addresses', async () => {
  const terminal = new TestTerminal();
  await operate(world.database, ['export'], { terminal });
  const { database: empty } = await openTestDatabase();
  received = await listenTo(empty, ADDRESS_CHANNEL);
  const input = new TestTerminal(terminal.written);
  expect(await operate(empty, ['import'], { terminal: input })).toMatchObject({ exitCode: 0 });
  expect(await notified()).toEqual([ALL_ADDRESSES]);
});

/** The addresses of the notifications since the last call, without repetitions. */
async function notified(): Promise<string[]> {
  return [...new Set(await received())].toSorted();
}

async function canBePaid(address: string): Promise<boolean> {
  const { body } = await request(world.base, `/.well-known/lnurlp/${address}`);
  return body.tag === 'payRequest';
}
