import { expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { startWebhookReceiver } from '../helpers/network/start-webhook-receiver.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  assignNewTestMint,
  setLockQuotes,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const logCapture = new LogCapture('info');
const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: '0' },
  overrides: { log: logCapture.log },
});

it('lists the changes of a user or a name page by page, the newest first', async () => {
  const wallet = environment.newWallet();
  const run = (clockMs: number, ...argv: string[]) =>
    runOperatorCommand(environment.database, argv, { clock: () => clockMs });
  const startMs = Date.parse('2031-02-03T04:05:06Z');
  await wallet.send('POST', '/api/v2/user/username', { username: 'berta' });
  await run(startMs, 'user', 'block', 'berta', '--reason', 'ticket 812');
  await run(startMs + 1_000, 'user', 'unblock', 'berta');
  await run(startMs + 2_000, 'name', 'release', 'berta', '--in-use');
  const block = '{"since":"2031-02-03T04:05:06.000Z","reason":"ticket 812"}';
  const user = `berta (${wallet.npub})`;
  const { stdout } = await run(startMs, 'audit', wallet.npub, '--since', '2031-02-03T04:05:06');
  expect(stdout).toBe(`2031-02-03T04:05:08.000Z  name release  ${user}
  By            root, with a command
  Before        {"availability":"in_use","npub":"${wallet.npub}","pubkey":"${wallet.pubkey}"}
  After         {"availability":"free"}
2031-02-03T04:05:07.000Z  user unblock  ${user}
  By            root, with a command
  Before        ${block}
2031-02-03T04:05:06.000Z  user block  ${user}
  By            root, with a command
  After         ${block}
`);
  const firstPage = JSON.parse(
    (await run(startMs, 'audit', 'berta', '--limit', '3', '--json')).stdout,
  );
  expect(firstPage.events.map(({ action }: { action: string }) => action)).toEqual([
    'name release',
    'user unblock',
    'user block',
  ]);
  const page = ['--page', String(firstPage.nextPage), '--json'];
  expect(JSON.parse((await run(startMs, 'audit', 'berta', ...page)).stdout)).toMatchObject({
    events: [{ action: 'claim name', actor: wallet.pubkey, npub: wallet.npub, name: 'berta' }],
  });
  const nobody = environment.newWallet().npub;
  expect((await run(startMs, 'audit', nobody)).stdout).toBe('No events.\n');
});

it('lists a page of many changes', async () => {
  const { db } = environment.database;
  const change = { actor_kind: 'command', actor: 'root', action: 'test', logged: 1 } as const;
  const rows = Array.from({ length: 1_000 }, () => ({ ...change, at: Date.now(), after: '{}' }));
  for (let count = 0; count < 80; count += 1) {
    await db.insertInto('audit_events').values(rows).execute();
  }
  const { stdout } = await runOperatorCommand(environment.database, ['audit', '--limit', '80000']);
  await db.deleteFrom('audit_events').where('action', '=', 'test').execute();
  expect(stdout.match(/ {2}test$/gm)).toHaveLength(80_000);
});

it('lists the change that gave a name up', async () => {
  const wallet = environment.newWallet();
  const run = (...argv: string[]) => runOperatorCommand(environment.database, argv);
  await run('name', 'assign', 'claraold', wallet.npub);
  await run('name', 'assign', 'claranew', wallet.npub);
  const { events } = JSON.parse((await run('audit', 'claraold', '--json')).stdout);
  expect(events).toMatchObject([
    { before: { name: 'claraold' }, after: { name: 'claranew' } },
    { after: { name: 'claraold' } },
  ]);
});

it('lists no changes of another key that gave up the name "null"', async () => {
  const [owner, other] = [environment.newWallet(), environment.newWallet()];
  const run = (...argv: string[]) => runOperatorCommand(environment.database, argv);
  await run('name', 'assign', 'null', owner.npub);
  await run('name', 'assign', 'nulla', owner.npub);
  expect((await run('audit', other.npub)).stdout).toBe('No events.\n');
});

it('records and logs the changes of users and operators once, with what was before, and without secrets', async () => {
  // Both processes look for changes to log.
  await useAdditionalService(environment, {}, { log: logCapture.log });
  const wallet = environment.newWallet();
  const mint = await assignNewTestMint(wallet);
  await setLockQuotes(wallet, true);
  // Wallets repeat their settings at each start.
  await setLockQuotes(wallet, true);
  await setMint(wallet, mint.url);
  await wallet.send('POST', '/api/v2/user/username', { username: 'anna' });
  await wallet.send('POST', '/api/v2/user/username', { username: 'annabel' });
  const receiver = await startWebhookReceiver();
  const webhook = { kind: 'webhook', url: `${receiver.url}/secret-path`, minAmount: 21 };
  const { body } = await wallet.send('PUT', '/api/v2/user/notifications', { channels: [webhook] });
  const [channel] = body.data.channels;
  await wallet.send('PUT', '/api/v2/user/notifications', { channels: [] });
  await runOperatorCommand(environment.database, ['user', 'block', wallet.npub]);
  await runOperatorCommand(environment.database, ['name', 'release', 'annabel', '--in-use']);

  const user = { actorKind: 'user', actor: wallet.pubkey, pubkey: wallet.pubkey };
  const root = { actorKind: 'command', actor: 'root', pubkey: wallet.pubkey };
  const settings = { action: 'change settings', name: null };
  const [oldMint, newMint] = [environment.mint.url, mint.url].map((mintUrl) => ({ mintUrl }));
  const channels = [{ id: channel.id, kind: 'webhook', site: channel.site, minAmountSat: 21 }];
  const expected = [
    {
      ...user,
      ...settings,
      before: { ...oldMint, lockQuotes: false },
      after: { ...newMint, lockQuotes: false },
    },
    {
      ...user,
      ...settings,
      before: { ...newMint, lockQuotes: false },
      after: { ...newMint, lockQuotes: true },
    },
    { ...user, action: 'claim name', name: 'anna', before: { name: null } },
    { ...user, action: 'claim name', before: { name: 'anna' }, after: { name: 'annabel' } },
    { ...user, action: 'change notifications', name: 'annabel', before: [], after: channels },
    { ...user, action: 'change notifications', before: channels, after: [] },
    { ...root, action: 'user block', name: 'annabel', before: null },
    { ...root, action: 'name release', name: 'annabel', after: { availability: 'free' } },
  ];
  const listLogged = () =>
    logCapture.lines
      .map((line) => JSON.parse(line))
      .filter(({ event, pubkey }) => event === 'audit_event' && pubkey === wallet.pubkey);
  await eventually(() => expect(listLogged().length).toBeGreaterThanOrEqual(expected.length));
  expect(listLogged()).toMatchObject(expected);
  const text = JSON.stringify(
    await environment.database.db.selectFrom('audit_events').selectAll().execute(),
  );
  expect(text).not.toContain('secret-path');
  expect(text).not.toContain(channel.secret);
});
