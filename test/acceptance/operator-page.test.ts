import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLogger, RecentErrors } from '../../src/log.ts';
import { findUserByPubkey } from '../../src/recipients/user-store.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

const OPERATOR_KEY = generateSecretKey();
const OVERVIEW = '/api/v2/operator/overview';
const COMMANDS = '/api/v2/operator/commands';

const environment = useTestEnvironment({
  env: { OPERATOR_KEYS: nip19.npubEncode(getPublicKey(OPERATOR_KEY)) },
});
let operator: RecipientClient;

beforeAll(() => {
  operator = new RecipientClient(environment.origin, Date.now, OPERATOR_KEY);
});

describe('every endpoint of the operator page', () => {
  it.each([
    ['GET', OVERVIEW],
    ['POST', COMMANDS],
  ] as const)(
    'returns 404 to a user who is no operator, and 401 without a key: %s %s',
    async (method, path) => {
      const user = environment.newWallet();
      const response = await (method === 'GET'
        ? user.get(path)
        : user.send(method, path, { argv: ['user', 'list'] }));
      expect(response).toMatchObject({ status: 404, body: { code: 'not_found' } });
      const { status } = await fetch(environment.origin + path, { method });
      expect(status).toBe(401);
    },
  );

  it('does not exist without OPERATOR_KEYS', async () => {
    const service = await useAdditionalService(environment, {});
    const client = operator.withOrigin(service.publicOrigin);
    for (const path of [OVERVIEW, COMMANDS, '/operator']) {
      expect((await client.get(path)).status).toBe(404);
    }
  });
});

it('shows health, mints and statistics', async () => {
  await insertPaidQuotes(environment.database, environment.newWallet().pubkey, [
    { paidAtMs: Date.now(), amountSat: 1_234 },
  ]);
  // Its mint is the default one.
  await environment.requestInvoice(environment.newWallet(), 21);
  const { db } = environment.database;
  const failing = { info: '{}', fetched_at: 1, failing_since: 1, failure: 'timeout' };
  await db
    .insertInto('mints')
    .values([
      { ...failing, url: 'https://a.example' },
      { ...failing, url: 'https://b.example', answered_at: 1 },
    ])
    .execute();
  // Of a time when ALERT_URL was set.
  const alert = { name: 'disk_low', checked_at: 1, since: 1, text: 'The disk is almost full.' };
  await db.insertInto('alerts').values(alert).execute();
  const { body } = await operator.get(OVERVIEW);
  expect(body.data.mints.map(({ url }: { url: string }) => url)).toEqual([
    environment.mint.url,
    'https://b.example',
    'https://a.example',
  ]);
  expect(body.data).toMatchObject({
    health: { status: 'ready', checks: { database: 'ok' } },
    alerts: [],
    errors: [],
  });
  expect(body.data.days.length).toBe(30);
  expect(body.data.days.at(-1)).toMatchObject({ payments: 1, sat: 1_234 });
});

it('runs the doctor', async () => {
  // The environment of the test process has no settings.
  expect((await run('doctor')).output).toContain('PROBLEM  DEFAULT_MINT_URL is required');
});

it('changes blocks and names as the operator, and records it', async () => {
  const { pubkey, npub } = environment.newWallet();
  await assignUsername(environment.database, pubkey, 'carla');
  expect(await run('user', 'block', 'carla', '--reason=a "fraud" -- perhaps')).toMatchObject({
    exitCode: 0,
    output: expect.stringContaining('is blocked'),
  });
  expect((await findUserByPubkey(environment.database.db, pubkey))?.block?.reason).toBe(
    'a "fraud" -- perhaps',
  );
  expect((await run('user', 'unblock', npub)).output).toContain('is unblocked');
  expect(await run('user', 'block', 'no such name')).toMatchObject({ exitCode: 2 });
  expect((await run('audit', 'carla')).output).toContain(
    `user unblock  carla (${npub})\n  By            ${operator.npub}, on the operator page\n`,
  );
  expect((await run('trace', npub)).output).toContain('carla');
  expect((await run('member', 'add', npub)).exitCode).toBe(0);
  expect((await run('member', 'list')).output).toContain(npub);
  expect((await run('member', 'remove', npub)).exitCode).toBe(0);
});

it.each([
  [['trace', 'alice', '--reveal']],
  [['payments']],
  [['user', 'list', '--uncollected']],
  [['user', 'export', 'alice']],
  [['user', 'delete', 'alice', '--apply']],
  [['name', 'release', 'carla', '--in-use']],
  [['name', 'assign', '--csv', '/etc/passwd']],
  [['member', 'import', '/etc/passwd']],
  [['treasury', 'withdraw']],
  [['export']],
  [['import']],
  [['name']],
])('does not run the command %j', async (argv) => {
  const { status, body } = await operator.send('POST', COMMANDS, { argv });
  expect({ status, message: body.message }).toEqual({
    status: 400,
    message: 'argv: the page does not offer this command.',
  });
});

it('serves a page that contains nothing before somebody has signed in', async () => {
  const response = await fetch(`${environment.origin}/operator`);
  expect(response.status).toBe(200);
  expect(await response.text()).toMatch(
    /<div id="operator"[^>]*><h1>Operator<\/h1><p class="loading">/,
  );
});

it('remembers the newest errors of the log, without secrets', () => {
  const errors = new RecentErrors();
  const written: string[] = [];
  const log = createLogger('info', errors.watch({ write: (line) => written.push(line) }));
  log.info({ event: 'listening' }, 'not an error');
  for (let count = 1; count <= 60; count += 1) {
    log.error({ event: `failed_${count}`, err: new Error('nsec1abcdefghijk') }, 'it failed');
  }
  expect(written).toHaveLength(61);
  expect(errors.list()).toHaveLength(50);
  expect(errors.list()[0]).toEqual({
    time: expect.stringMatching(/Z$/),
    event: 'failed_60',
    message: 'it failed: [redacted]',
  });
});

async function run(...argv: string[]): Promise<{ exitCode: number; output: string }> {
  const { status, body } = await operator.send('POST', COMMANDS, { argv });
  expect(status).toBe(200);
  return body.data;
}
