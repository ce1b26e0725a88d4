import { randomBytes } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  ALL_RECIPIENTS,
  RECIPIENT_CHANGES_CHANNEL,
} from '../../src/recipients/recipient-directory.ts';
import { openTestDatabase } from '../helpers/database.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { assignUsername } from '../helpers/names.ts';
import { recordNotifications } from '../helpers/notification-barrier.ts';
import { runOperatorCommand } from '../helpers/operator-command.ts';
import { setLockQuotes, setMint, useTestEnvironment } from '../helpers/test-environment.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';
import { requestJson, type TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername } from '../helpers/username-buyer.ts';

/** Operations that notify every process of changed addresses, and what payers see afterwards. */

const world = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '1' } });
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
  await assignUsername(world.database, wallet.pubkey, name);
  received = await recordNotifications(world.database, RECIPIENT_CHANGES_CHANNEL);
});

it('notifies for the npub and the name when settings change', async () => {
  expect((await setMint(wallet, world.mint.url)).status).toBe(200);
  expect(await notified()).toEqual([name, wallet.npub]);
  expect((await setLockQuotes(wallet, true)).status).toBe(200);
  expect(await notified()).toEqual([name, wallet.npub]);
});

it('notifies for the npub and the name when a recipient is blocked and unblocked', async () => {
  for (const command of ['block', 'unblock']) {
    expect(await canBePaid(wallet.npub)).toBe(command === 'block');
    await runOperatorCommand(world.database, ['user', command, name]);
    expect(await notified()).toEqual([name, wallet.npub]);
    expect(await canBePaid(wallet.npub)).toBe(command === 'unblock');
    expect(await canBePaid(name)).toBe(command === 'unblock');
  }
});

describe('a username', () => {
  it('notifies for the new and the old name when its owner buys another one', async () => {
    const next = `${name}x`;
    expect(await canBePaid(name)).toBe(true);
    expect((await buyUsername(wallet, next, await payer.mintToken(1))).status).toBe(201);
    expect(await notified()).toEqual([name, wallet.npub]);
    expect([await canBePaid(name), await canBePaid(next)]).toEqual([false, true]);

    expect((await buyUsername(wallet, name)).status).toBe(201);
    expect(await notified()).toEqual([next, wallet.npub]);
    expect([await canBePaid(name), await canBePaid(next)]).toEqual([true, false]);
  });

  it.each(['reserve', 'release'])(
    'notifies when the operator takes it away (%s)',
    async (command) => {
      expect(await canBePaid(name)).toBe(true);
      await runOperatorCommand(world.database, ['name', command, name, '--in-use']);
      expect(await notified()).toEqual([name]);
      expect(await canBePaid(name)).toBe(false);
    },
  );
});

it('notifies for all addresses when an archive is imported', async () => {
  const terminal = new TestTerminal();
  await runOperatorCommand(world.database, ['export'], { terminal });
  const { database: empty } = await openTestDatabase();
  received = await recordNotifications(empty, RECIPIENT_CHANGES_CHANNEL);
  const input = new TestTerminal(terminal.output);
  expect(await runOperatorCommand(empty, ['import'], { terminal: input })).toMatchObject({
    exitCode: 0,
  });
  expect(await notified()).toEqual([ALL_RECIPIENTS]);
});

/** The addresses of the notifications since the last call, without repetitions. */
async function notified(): Promise<string[]> {
  return [...new Set(await received())].toSorted();
}

async function canBePaid(address: string): Promise<boolean> {
  const { body } = await requestJson(world.origin, `/.well-known/lnurlp/${address}`);
  return body.tag === 'payRequest';
}
