import { beforeEach, describe, expect, it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { FIRST_PAID_AT_MS, insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const DAY_MS = 24 * 60 * 60_000;
const UNAVAILABLE = { status: 'ERROR', reason: 'Recipient unavailable.' };

const clock = new TestClock();
const environment = useTestEnvironment({
  env: { RECIPIENTS: 'members', USERNAME_PRICE_SAT: '0' },
  overrides: { clock: clock.now },
});
let wallet: RecipientClient;
let name: string;
let nameCount = 0;

beforeEach(() => {
  wallet = environment.newWallet();
  nameCount += 1;
  name = `member${nameCount}`;
});

describe('with RECIPIENTS=members', () => {
  it('has no address for other keys, neither by npub nor by name', async () => {
    await assignUsername(environment.database, wallet.pubkey, name);
    const unknown = await fetchEverywhere(`unknown${nameCount}`);
    expect(unknown.lnurl.text).toBe(JSON.stringify(UNAVAILABLE));
    expect(unknown.page.status).toBe(404);
    for (const address of [wallet.npub, name, name.toUpperCase(), `${name}+shop`]) {
      expect(await fetchEverywhere(address)).toEqual(unknown);
    }
  });

  it('pays a member by npub and by name, which costs nothing', async () => {
    await run('member', 'add', wallet.npub, '--name', name, '--note', 'plays the tuba');
    expect((await discover(name)).tag).toBe('payRequest');
    expect((await discover(wallet.npub)).tag).toBe('payRequest');
    expect(await lookUpNip05(name)).toEqual({ [name]: wallet.pubkey });
    await environment.requestInvoice(wallet, 21);

    const other = environment.newWallet();
    const buy = () => other.send('POST', '/api/v2/user/username', { username: `${name}b` });
    expect((await buy()).body).toMatchObject({ code: 'not_a_member' });
    await run('member', 'add', other.pubkey);
    expect((await buy()).status).toBe(201);
    expect((await discover(`${name}b`)).tag).toBe('payRequest');
  });

  it('stops only new payments to a removed member, who still collects earlier ones', async () => {
    await run('member', 'add', wallet.npub, '--name', name);
    const socket = await wallet.openSocket();
    const { pr } = await environment.requestInvoice(wallet, 21);
    const removed = await run('member', 'remove', wallet.npub);
    expect(removed.stdout).toContain(`${name} (${wallet.npub}) is no member and keeps the name`);
    expect(await discover(name)).toEqual(UNAVAILABLE);
    expect(await discover(wallet.npub)).toEqual(UNAVAILABLE);

    environment.mint.pay(pr);
    await socket.nextMessage();
    await socket.close();
    expect(await wallet.listPaidQuotes()).toMatchObject([{ amount: 21, state: 'PAID' }]);
    expect((await wallet.get('/api/v2/user/info')).body.data.user).toMatchObject({ member: false });
    expect((await wallet.get('/api/v2/user/addresses')).body.data.addresses).toEqual([]);
    await run('member', 'add', wallet.npub);
    expect((await discover(name)).tag).toBe('payRequest');
  });

  it('shows to a user who is not a member the payments of before', async () => {
    await insertPaidQuotes(environment.database, wallet.pubkey, [{ paidAtMs: FIRST_PAID_AT_MS }]);
    expect(await wallet.listPaidQuotes()).toHaveLength(1);
  });

  it('makes one person a member with the link of an invitation, until it expires', async () => {
    const { url } = await runJson('member', 'invite', '--note', 'friend of Bob', '--days', '2');
    const code = url.replace('https://pay.example/account#invitation=', '');
    const redeem = (client: RecipientClient, text = code) =>
      client.send('POST', '/api/v2/user/membership', { code: text });
    const invalid = { status: 400, body: { code: 'invitation_invalid' } };
    expect(await redeem(wallet, `${code}x`)).toMatchObject(invalid);
    expect((await redeem(wallet)).body.data.user).toMatchObject({ member: true });
    expect((await discover(wallet.npub)).tag).toBe('payRequest');
    // A client that got no response repeats the request.
    expect((await redeem(wallet)).status).toBe(200);
    expect(await redeem(environment.newWallet())).toMatchObject(invalid);
    const { users } = await runJson('member', 'list', '--limit', '9999');
    expect(users).toContainEqual(
      expect.objectContaining({ npub: wallet.npub, memberNote: 'friend of Bob' }),
    );
    const { events } = await runJson('audit', wallet.npub);
    const by = { actorKind: 'user', actor: wallet.pubkey };
    expect(events).toMatchObject([{ action: 'redeem invitation', ...by }]);
    const stored = (await run('member', 'invite')).stdout.split('\n')[0]?.split('=')[1] ?? '';
    const { db } = environment.database;
    const rows = await db.selectFrom('invitations').selectAll().execute();
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(rows)).not.toContain(stored);

    const expiring = (await runJson('member', 'invite', '--days', '2')).url.split('=')[1];
    clock.advance(2 * DAY_MS);
    expect(await redeem(environment.newWallet(), expiring)).toMatchObject(invalid);
    const { status } = await requestJson(environment.origin, '/api/v2/user/membership', {
      method: 'POST',
      body: JSON.stringify({ code }),
      headers: { 'content-type': 'application/json' },
    });
    expect(status).toBe(401);
  });

  it('imports members from a CSV file, or none of them', async () => {
    const other = environment.newWallet();
    const importMembers = (csv: string, ...options: string[]) =>
      runOperatorCommand(environment.database, ['member', 'import', '-', ...options], {
        terminal: new FakeTerminal(csv),
      });
    const csv = `npub,note,name\n${wallet.npub},"drums, ""loud""",${name}\n${other.pubkey},,`;
    expect(await importMembers(csv)).toMatchObject({ exitCode: 0 });
    expect(await discover(wallet.npub)).toEqual(UNAVAILABLE);
    for (const broken of [
      'npub1x,,',
      `${other.pubkey},\u001b[31m,`,
      `${other.pubkey},,npubitest`,
    ]) {
      const result = await importMembers(`${csv}\n${broken}`, '--apply');
      expect(result).toMatchObject({ exitCode: 1 });
    }
    expect(await discover(wallet.npub)).toEqual(UNAVAILABLE);
    expect(await importMembers(csv, '--apply')).toMatchObject({ exitCode: 0 });
    expect((await discover(name)).tag).toBe('payRequest');
    expect((await discover(other.npub)).tag).toBe('payRequest');
    expect((await run('user', 'show', wallet.npub)).stdout).toContain('drums, "loud"');
  });

  it('stores nothing about a key that is removed and was no member', async () => {
    expect(await run('member', 'remove', wallet.npub)).toMatchObject({ exitCode: 0 });
    expect(await run('user', 'show', wallet.npub)).toMatchObject({ exitCode: 1 });
  });

  it('deletes the membership with the data of a user', async () => {
    await run('member', 'add', wallet.npub);
    await run('user', 'delete', wallet.npub, '--apply');
    expect(await discover(wallet.npub)).toEqual(UNAVAILABLE);
  });
});

it('ignores memberships with RECIPIENTS=everyone', async () => {
  const service = await useAdditionalService(environment, {}, { clock: clock.now });
  const client = new RecipientClient(service.publicOrigin, clock.now, wallet.secretKey);
  const { body } = await requestJson(service.url, `/.well-known/lnurlp/${wallet.npub}`);
  expect(body.tag).toBe('payRequest');
  expect((await client.get('/api/v2/user/info')).body.data.user).not.toHaveProperty('member');
  const redeemed = await client.send('POST', '/api/v2/user/membership', { code: 'any' });
  expect(redeemed.status).toBe(404);
  const invite = (env: Record<string, string>) =>
    runOperatorCommand(environment.database, ['member', 'invite'], { env });
  expect((await invite({})).stdout).toContain('It has no effect');
  expect((await invite({ RECIPIENTS: 'members' })).stdout).not.toContain('It has no effect');
});

it.each([
  [['member', 'add']],
  [['member', 'remove', 'alice', '--name', 'alice']],
  [['member', 'invite', '--days', '0']],
  [['member', 'invite', '--note', '']],
  [['member', 'list', 'alice']],
])('rejects the arguments %j with exit code 2', async (argv) => {
  expect(await run(...argv)).toMatchObject({ exitCode: 2, stdout: '' });
});

/** Requests everything that could reveal a recipient. Leaves out what differs between any two requests. */
async function fetchEverywhere(address: string) {
  const fetchText = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${environment.origin}${path}`, init);
    const headers = Object.fromEntries(response.headers);
    delete headers['date'];
    delete headers['x-request-id'];
    return { status: response.status, headers, text: await response.text() };
  };
  const asPage = { headers: { accept: 'text/html' } };
  const page = await fetchText(`/${address}`, asPage);
  return {
    lnurl: await fetchText(`/.well-known/lnurlp/${address}`),
    callback: await fetchText(`/.well-known/lnurlp/${address}?amount=21000`),
    nip05: await fetchText(`/.well-known/nostr.json?name=${address}`),
    // The page repeats its own address in links to other languages.
    page: { status: page.status, text: page.text.replaceAll(address, '') },
    preview: await fetchText(`/${address}/preview.png`),
  };
}

async function discover(address: string) {
  return (await requestJson(environment.origin, `/.well-known/lnurlp/${address}`)).body;
}

async function lookUpNip05(username: string) {
  const path = `/.well-known/nostr.json?name=${username}`;
  return (await requestJson(environment.origin, path)).body.names;
}

function run(...argv: string[]) {
  return runOperatorCommand(environment.database, argv, { clock: clock.now });
}

async function runJson(...argv: string[]) {
  return JSON.parse((await run(...argv, '--json')).stdout);
}
