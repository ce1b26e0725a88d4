import { randomBytes } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  ALL_RECIPIENTS,
  RECIPIENT_CHANGES_CHANNEL,
} from '../../src/recipients/recipient-directory.ts';
import { recordNotifications } from '../helpers/database/database-notifications.ts';
import { openTestDatabase } from '../helpers/database/test-database.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const environment = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '1' } });
let payer: EcashPayer;
let wallet: RecipientClient;
let username: string;
let takePayloads: () => Promise<string[]>;

beforeAll(async () => {
  payer = await EcashPayer.open(environment.mint);
});

beforeEach(async () => {
  wallet = environment.newWallet();
  username = `n${randomBytes(8).toString('hex')}`;
  await assignUsername(environment.database, wallet.pubkey, username);
  takePayloads = await recordNotifications(environment.database, RECIPIENT_CHANGES_CHANNEL);
});

describe('a change of a username', () => {
  it('sends the npub and the previous username when the owner changes to another one or back', async () => {
    const nextUsername = `${username}x`;
    expect(await canBePaid(username)).toBe(true);
    const purchase = await requestUsername(wallet, nextUsername, await payer.mintToken(1));
    expect(purchase.status).toBe(201);
    expect(await takeNotifiedAddresses()).toEqual([username, wallet.npub]);
    expect([await canBePaid(username), await canBePaid(nextUsername)]).toEqual([false, true]);

    expect((await requestUsername(wallet, username)).status).toBe(201);
    expect(await takeNotifiedAddresses()).toEqual([nextUsername, wallet.npub]);
    expect([await canBePaid(username), await canBePaid(nextUsername)]).toEqual([true, false]);
  });

  it.each(['reserve', 'release'])(
    'sends the username when the operator runs `name %s --in-use`',
    async (command) => {
      expect(await canBePaid(username)).toBe(true);
      await runOperatorCommand(environment.database, ['name', command, username, '--in-use']);
      expect(await takeNotifiedAddresses()).toEqual([username]);
      expect(await canBePaid(username)).toBe(false);
    },
  );
});

it('sends a notification for all recipients when an archive is imported', async () => {
  const exportTerminal = new FakeTerminal();
  await runOperatorCommand(environment.database, ['export'], { terminal: exportTerminal });
  const { database: emptyDatabase } = await openTestDatabase();
  takePayloads = await recordNotifications(emptyDatabase, RECIPIENT_CHANGES_CHANNEL);
  const importTerminal = new FakeTerminal(exportTerminal.output);
  const result = await runOperatorCommand(emptyDatabase, ['import'], { terminal: importTerminal });
  expect(result.exitCode).toBe(0);
  expect(await takeNotifiedAddresses()).toEqual([ALL_RECIPIENTS]);
});

async function takeNotifiedAddresses(): Promise<string[]> {
  return [...new Set(await takePayloads())].toSorted();
}

async function canBePaid(address: string): Promise<boolean> {
  const { body } = await requestJson(environment.origin, `/.well-known/lnurlp/${address}`);
  return body.tag === 'payRequest';
}
