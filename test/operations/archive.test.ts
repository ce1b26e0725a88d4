import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type DatabaseLocation, openDatabase } from '../../src/database/database.ts';
import { Store } from '../../src/store/store.ts';
import { createDataDir } from '../helpers/database.ts';
import { runNutpost } from '../helpers/nutpost-process.ts';
import { createServerDatabase } from '../helpers/server-database.ts';
import { TEST_JWT_SECRET } from '../helpers/world.ts';

/** `nutpost export` and `nutpost import`: a move from the embedded database to PostgreSQL. */

const USERS = 100;
const QUOTES_PER_USER = 200;
const MOVE_TIMEOUT_MS = 120_000;

/** JavaScript's own memory: little more than a process needs without the archive. */
const HEAP_MB = 112;

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

let dataDir: string;
let remove: () => Promise<void>;

beforeAll(async () => {
  ({ dataDir, remove } = await createDataDir());
  await fill({ kind: 'embedded', dataDir });
}, MOVE_TIMEOUT_MS);

afterAll(() => remove());

it(
  'moves 20,000 quotes through a pipe, and every user has the same list',
  async () => {
    const { url, drop } = await createServerDatabase();
    onTestFinished(drop);
    const env = { DATABASE_URL: url, JWT_SECRET: TEST_JWT_SECRET };
    expect(await runNutpost(['migrate'], env)).toMatchObject({ code: 0 });

    const exporting = start('export', { DATA_DIR: dataDir });
    const importing = start('import', env);
    const [stderr] = await Promise.all([
      text(exporting.stderr),
      once(exporting, 'exit').then(([code]) => expect(code).toBe(0)),
      once(importing, 'exit').then(([code]) => expect(code).toBe(0)),
      pipeline(exporting.stdout, importing.stdin),
    ]);

    expect(stderr).toMatch(/ {2}users +100\n {2}quotes +20,000\n {2}quote_events +20,000\n/);
    const before = await listsOf({ kind: 'embedded', dataDir });
    expect(before.map(({ total }) => total)).toEqual(Array(USERS).fill(QUOTES_PER_USER));
    expect(await listsOf({ kind: 'postgres', url })).toEqual(before);
  },
  MOVE_TIMEOUT_MS,
);

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
