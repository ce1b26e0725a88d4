import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { beforeAll, expect, it } from 'vitest';
import { findUserByPubkey } from '../../src/recipients/user-store.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

const OPERATOR_KEY = generateSecretKey();
const COMMANDS = '/api/v2/operator/commands';

const environment = useTestEnvironment({
  env: { OPERATOR_KEYS: nip19.npubEncode(getPublicKey(OPERATOR_KEY)) },
});
let operator: RecipientClient;

beforeAll(() => {
  operator = new RecipientClient(environment.origin, Date.now, OPERATOR_KEY);
});

it('returns 404 to a user who is no operator, and 401 without a key', async () => {
  const response = await environment.newWallet().send('POST', COMMANDS, { argv: ['user', 'list'] });
  expect(response).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect((await fetch(environment.origin + COMMANDS, { method: 'POST' })).status).toBe(401);
});

it('does not exist without OPERATOR_KEYS', async () => {
  const service = await useAdditionalService(environment, {});
  const client = operator.withOrigin(service.publicOrigin);
  expect((await client.send('POST', COMMANDS, { argv: ['doctor'] })).status).toBe(404);
  expect((await client.get('/operator')).status).toBe(404);
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

async function run(...argv: string[]): Promise<{ exitCode: number; output: string }> {
  const { status, body } = await operator.send('POST', COMMANDS, { argv });
  expect(status).toBe(200);
  return body.data;
}
