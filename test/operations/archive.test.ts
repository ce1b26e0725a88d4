import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type DatabaseLocation, openDatabase } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { createDataDir } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { type CommandEnding, runNutpost } from '../helpers/nutpost-command.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { createServerDatabase } from '../helpers/server-database.ts';
import { request } from '../helpers/wallet.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';

/** `nutpost export` and `nutpost import`: a move from the embedded database to PostgreSQL, and a backup. */

const USERS = 500;
const QUOTES_PER_USER = 200;
const MOVE_WITHIN_MS = 60_000;

/** A machine that is slow makes the quotes slowly, too. */
const FILL_AND_MOVE_WITHIN_MS = 5 * MOVE_WITHIN_MS;

/** JavaScript's own memory: less than the archive has, which therefore is nowhere as a whole. */
const HEAP_MB = 112;

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

let dataDir: string;
let remove: () => Promise<void>;

beforeAll(async () => {
  ({ dataDir, remove } = await createDataDir());
  await fill({ kind: 'embedded', dataDir });
}, FILL_AND_MOVE_WITHIN_MS);

afterAll(() => remove());

it(
  '100,000 quotes move within a minute, and every user has the list that they had',
  async () => {
    const from: DatabaseLocation = { kind: 'embedded', dataDir };
    const { url, drop } = await createServerDatabase();
    onTestFinished(drop);
    const env = { DATABASE_URL: url, JWT_SECRET: TEST_JWT_SECRET };
    expect(await runNutpost(['migrate'], env)).toMatchObject({ code: 0 });

    const startedAtMs = performance.now();
    const exporting = start('export', { DATA_DIR: dataDir });
    const importing = start('import', env);
    const between = new PassThrough();
    let bytes = 0;
    between.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    const [exported, imported] = await Promise.all([
      ended(exporting, null),
      ended(importing, importing.stdout),
      pipeline(exporting.stdout, between, importing.stdin),
    ]);
    const tookMs = performance.now() - startedAtMs;

    expect(exported).toMatchObject({ code: 0 });
    expect(imported).toMatchObject({ code: 0 });
    expect(exported.stderr).toMatch(
      / {2}users +500\n {2}quotes +100,000\n {2}quote_events +100,000\n/,
    );
    expect(bytes).toBeGreaterThan(HEAP_MB * 1024 * 1024);
    expect(tookMs).toBeLessThan(MOVE_WITHIN_MS);
    const before = await listsOf(from);
    expect(before.map(({ total }) => total)).toEqual(Array(USERS).fill(QUOTES_PER_USER));
    expect(await listsOf({ kind: 'postgres', url })).toEqual(before);
  },
  FILL_AND_MOVE_WITHIN_MS,
);

it('an export holds up no request of a service that stops beside it', async () => {
  const env = { DATA_DIR: dataDir };
  const service = new NutpostProcess('serve', { ...env, STOP_DELAY_SECONDS: '1' });
  const url = await service.listening();
  const exporting = start('export', env);
  const closed = once(exporting, 'close');
  let told = '';
  exporting.stderr.on('data', (chunk) => {
    told += chunk;
  });
  exporting.stdout.resume();
  await eventually(() => expect(told).not.toBe(''));
  const asked = request(url, '/.well-known/nostr.json?name=alice');
  expect(await service.stop()).toMatchObject({ code: 0, signal: null });
  expect(await asked).toMatchObject({ status: 200 });
  const [code] = await closed;
  expect(told).toMatch(code === 0 ? /^Exported / : /it was stopped meanwhile/);
});

it('a backup is made beside the service that has the embedded database', async () => {
  const place = await createDataDir();
  onTestFinished(place.remove);
  const env = { DATA_DIR: place.dataDir };
  const service = new NutpostProcess('serve', env);
  await service.listening();
  expect(await runNutpost(['user', 'block', `${'0'.repeat(63)}1`], env)).toMatchObject({ code: 0 });
  const { code, stdout, stderr } = await runNutpost(['export'], env);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: 'Exported 1 row.\n  recipient_blocks  1\n',
  });
  expect(stdout.split('\n').slice(1)).toEqual([
    expect.stringMatching(/^\{"table":"recipient_blocks","row":\{"pubkey":"0+1",/),
    '',
  ]);
  expect(await runNutpost(['import'], env)).toMatchObject({ code: 1, stdout: '' });
  await service.stop();
});

/** Payments as wallets see them, some of them zaps, with a line of history each. */
async function fill(location: DatabaseLocation): Promise<void> {
  const { db, close } = await openDatabase(location, () => undefined);
  await sql`
    insert into users (pubkey, paid_count, last_paid_at)
    select encode(sha256(number::text::bytea), 'hex'), ${QUOTES_PER_USER}, now()
    from generate_series(1, ${USERS}::int) as number
  `.execute(db);
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
      expires_at, paid_at, paid_seq, verify_token, payment_hash, zap_request, watch_until)
    select 'https://mint.example', pubkey || '-' || seq, pubkey, 'lnbc' || repeat(pubkey, 5), 1 + seq,
      case seq % 3 when 0 then 'PAID' when 1 then 'ISSUED' else 'INFLIGHT' end, seq % 2 = 0,
      now() - interval '1 h', now() + interval '1 h', timestamptz '2025-01-01' + seq * interval '1 s', seq,
      pubkey || seq, pubkey, case when seq % 2 = 0 then repeat('"\\☕', 40) end, now()
    from users, generate_series(1, ${QUOTES_PER_USER}::int) as seq
  `.execute(db);
  await sql`
    insert into quote_events (quote, pubkey, at, kind, detail)
    select id, pubkey, paid_at, 'told', '{"sockets":1}' from quotes
  `.execute(db);
  await close();
}

/** What each user's wallet is told, of all users in the order of their keys. */
async function listsOf(location: DatabaseLocation) {
  const database = await openDatabase(location, () => undefined);
  const { quotes } = new Store(database.db);
  const users = await database.db.selectFrom('users').select('pubkey').orderBy('pubkey').execute();
  const lists = [];
  for (const { pubkey } of users) {
    const page = { sinceSeconds: null, limit: QUOTES_PER_USER + 1, offset: 0 };
    lists.push({ pubkey, ...(await quotes.listPaid(pubkey, page)) });
  }
  await database.close();
  return lists;
}

function start(command: string, env: Record<string, string>) {
  const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MB}`, PROGRAM, command], {
    env: { DEFAULT_MINT_URL: 'https://mint.example', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

/** How it ended. @param stdout null: somebody else reads it */
async function ended(
  child: ChildProcessByStdio<Writable, Readable, Readable>,
  stdout: Readable | null,
): Promise<CommandEnding> {
  const [said, stderr, [code]] = await Promise.all([
    stdout === null ? '' : text(stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code, stdout: said, stderr };
}
