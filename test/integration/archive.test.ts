import { sql } from 'kysely';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import { ARCHIVE_TABLES, LEFT_OUT } from '../../src/domain/archive.ts';
import { createTestDatabase, hasServer, useDatabase } from '../helpers/database.ts';
import { fillDatabase, RECIPIENT } from '../helpers/filled-database.ts';
import { giveName } from '../helpers/names.ts';
import { operate } from '../helpers/operator.ts';
import { keepPayments } from '../helpers/quotes.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';

/** `nutpost export` and `nutpost import`, on what they are run on. */

/** Tables that an archive leaves out: they belong to running processes. */
const LEFT_OUT_TABLES = [
  'kysely_migration',
  'kysely_migration_lock',
  'mint_leases',
  'watch_processes',
];

/** What has something in every column, and its archive. */
let filled: Database;
let archive: string;
useDatabase((database) => {
  filled = database;
});
beforeAll(async () => {
  await fillDatabase(filled);
  archive = await exportOf(filled);
});

it('all that is kept arrives, to the microsecond and the letter', async () => {
  const to = await newDatabase();
  const { exitCode, stdout, stderr } = await importInto(to, archive);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).toContain('Imported 31 rows.\n  usernames                 4\n  users ');
  expect(stdout).toContain('keep TREASURY_SECRET as it was');
  expect(await contentOf(to)).toEqual(await contentOf(filled));
  expect(rowsOf(await exportOf(to))).toEqual(rowsOf(archive));
});

it('contains every table, except those of running processes', async () => {
  const { rows } = await sql<{ table_name: string }>`
    select table_name from information_schema.tables where table_schema = 'public'`.execute(
    filled.db,
  );
  const tables = rows.map(({ table_name }) => table_name);
  expect(tables.sort()).toEqual([...ARCHIVE_TABLES, ...LEFT_OUT_TABLES].sort());
});

it('what is paid while an export runs is in the next one', async () => {
  const [from, to] = [await newDatabase(), await newDatabase()];
  await keepPayments(from, RECIPIENT, 3_000);
  const paying: Promise<unknown>[] = [];
  const terminal = new (class extends TestTerminal {
    override async write(text: string): Promise<void> {
      await super.write(text);
      if (paying.length === 0) {
        paying.push(keepPayments(from, 'd4'.repeat(32), 2));
        // An embedded database is the export's alone.
        await Promise.all(hasServer ? paying : []);
      }
    }
  })();
  expect((await operate(from, ['export'], { terminal })).stderr).toContain('  quotes  3,000\n');
  await Promise.all(paying);
  expect(terminal.told.at(-1)).toBe('Exported 3,001 of 3,001 rows (100 %)');
  expect((await importInto(to, terminal.written)).exitCode).toBe(0);
  expect((await operate(from, ['export'])).stderr).toContain('  quotes  3,002\n');
});

it('a database that somebody uses stays as it is', async () => {
  const to = await newDatabase();
  await giveName(to, 'd4'.repeat(32), 'dora');
  const before = await contentOf(to);
  expect(await importInto(to, archive)).toEqual({
    exitCode: 1,
    stdout: '',
    stderr:
      'Nothing was imported: the database is not empty (usernames, users).\n' +
      'Give one that `nutpost migrate` has just made.\n',
  });
  expect(await contentOf(to)).toEqual(before);
});

it('a line that is wrong is named, tells nothing of what stands there, and nothing is kept', async () => {
  const right = archive.trimEnd().split('\n');
  const at = (part: string) => right.findIndex((line) => line.includes(part));
  const change = (part: string, from: string | RegExp, to: string) =>
    right.with(at(part), (right[at(part)] ?? '').replace(from, to));
  const quote = '"quote_id":"quote 13"';
  const cases: [lines: string[], line: number, problem: string][] = [
    [
      change('"archive"', '"users":', '"people":'),
      1,
      'is not the first line of an archive that this nutpost can read',
    ],
    [change(quote, '}}', '}'), at(quote) + 1, 'is not a row of an archive'],
    [
      change(quote, '"locked":true', '"locked":"x"'),
      at('quote 900') + 1,
      'the database rejects one of the 5 rows of quotes that end here (SQLSTATE 22P02)',
    ],
    [
      change(quote, 'quote 13', 'quote 12'),
      at('quote 900') + 1,
      'the database rejects one of the 5 rows of quotes that end here (quotes_mint_url_quote_id_key)',
    ],
    [right.slice(0, -1), right.length - 1, 'is the last one, with 1 of 2 rows of treasury_proofs'],
  ];
  const to = await newDatabase();
  for (const [lines, line, problem] of cases) {
    expect(await importInto(to, lines.map((each) => `${each}\n`).join(''))).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `Nothing was imported. Line ${line}: ${problem}.\n`,
    });
    expect(await countOf(to)).toBe(0);
  }
  // The end of the last line may be missing.
  expect((await importInto(to, right.join('\n'))).exitCode).toBe(0);
});

it('names the version that wrote an archive with other columns', async () => {
  const older = archive.replace(/"nutpost":"[^"]+"/, '"nutpost":"0.0.1"');
  const to = await newDatabase();
  const { stderr } = await importInto(to, older.replaceAll(/,"locked":(?:true|false)/g, ''));
  expect(stderr).toMatch(
    /rows of quotes .* \(other columns\)\.\nnutpost 0\.0\.1 wrote it: import it with that version, and upgrade afterwards\.\n$/,
  );
  expect((await importInto(to, older)).exitCode).toBe(0);
});

async function newDatabase(): Promise<Database> {
  const testDatabase = await createTestDatabase();
  onTestFinished(() => testDatabase.drop());
  const database = await testDatabase.open();
  onTestFinished(() => database.close());
  return database;
}

async function exportOf(database: Database): Promise<string> {
  const terminal = new TestTerminal();
  const { exitCode, stdout } = await operate(database, ['export'], { terminal });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '' });
  return terminal.written;
}

function importInto(database: Database, archive: string) {
  return operate(database, ['import'], { terminal: new TestTerminal(archive) });
}

/** All but the header, which tells the time. */
function rowsOf(archive: string): string[] {
  return archive.split('\n').slice(1);
}

/** Every row of every table, as the database itself tells it. */
async function contentOf({ db }: Database): Promise<Record<string, unknown[]>> {
  const content: Record<string, unknown[]> = {};
  for (const table of ARCHIVE_TABLES) {
    const left = LEFT_OUT[table] ?? [];
    const { rows } = await sql<{ row: string }>`
      select (to_jsonb(kept) - ${sql.val(left)}::text[])::text as row from ${sql.table(table)} as kept
      order by 1`.execute(db);
    content[table] = rows.map(({ row }) => row);
  }
  return content;
}

async function countOf(database: Database): Promise<number> {
  return Object.values(await contentOf(database)).flat().length;
}
