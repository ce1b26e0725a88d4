import { sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import { ARCHIVE_TABLES, EXCLUDED_COLUMNS } from '../../src/operator/archive/archive-format.ts';
import { isPostgres, openTestDatabase, useDatabase } from '../helpers/database.ts';
import { FIXTURE_RECIPIENT, insertFixtureRows } from '../helpers/database-fixture.ts';
import { assignUsername } from '../helpers/names.ts';
import { runOperatorCommand } from '../helpers/operator-command.ts';
import { insertPayments } from '../helpers/quotes.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';

/** `nutpost export` and `nutpost import` on the database of the suite. */

/** Tables that an archive leaves out: they belong to running processes. */
const LEFT_OUT_TABLES = [
  'kysely_migration',
  'kysely_migration_lock',
  'mint_leases',
  'watch_processes',
];

/** A database with a value in every column, and its archive. */
const filled = useDatabase();
let archive: string;
beforeAll(async () => {
  await insertFixtureRows(filled);
  archive = await exportOf(filled);
});

it('restores every stored value', async () => {
  const to = await newDatabase();
  const { exitCode, stdout, stderr } = await importInto(to, archive);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).toContain('Imported 29 rows.\n  usernames                 4\n  users ');
  expect(stdout).toContain('keep TREASURY_SECRET');
  expect(await contentOf(to)).toEqual(await contentOf(filled));
  expect(rowsOf(await exportOf(to))).toEqual(rowsOf(archive));
});

it('contains every table, except those of running processes', async () => {
  const introspected = await filled.db.introspection.getTables({
    withInternalKyselyTables: true,
  });
  const tables = introspected.map(({ name }) => name);
  expect(tables.sort()).toEqual([...ARCHIVE_TABLES, ...LEFT_OUT_TABLES].sort());
});

it('leaves out payments that are recorded while it runs', async () => {
  const [from, to] = [await newDatabase(), await newDatabase()];
  await insertPayments(from, FIXTURE_RECIPIENT, 2_000);
  const paying: Promise<unknown>[] = [];
  const terminal = new (class extends TestTerminal {
    override async write(text: string): Promise<void> {
      await super.write(text);
      if (paying.length === 0) {
        paying.push(insertPayments(from, 'd4'.repeat(32), 2));
        // This process has only one connection to SQLite.
        await Promise.all(isPostgres ? paying : []);
      }
    }
  })();
  expect((await runOperatorCommand(from, ['export'], { terminal })).stderr).toContain(
    '  quotes  2,000\n',
  );
  await Promise.all(paying);
  expect(terminal.progressLines.at(-1)).toBe('Exported 2,001 of 2,001 rows (100 %)');
  expect((await importInto(to, terminal.output)).exitCode).toBe(0);
  expect((await runOperatorCommand(from, ['export'])).stderr).toContain('  quotes  2,002\n');
});

it('rejects a database that has rows, and leaves them as they are', async () => {
  const to = await newDatabase();
  await assignUsername(to, 'd4'.repeat(32), 'dora');
  const before = await contentOf(to);
  expect(await importInto(to, archive)).toEqual({
    exitCode: 1,
    stdout: '',
    stderr:
      'Nothing was imported: the database is not empty (usernames, users).\n' +
      'Create an empty one with `nutpost migrate`.\n',
  });
  expect(await contentOf(to)).toEqual(before);
});

it('names the number of an invalid line without its values, and imports nothing', async () => {
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
    [change(quote, '"locked":1', '"locked":true'), at(quote) + 1, 'is not a row of an archive'],
    [
      change(quote, '"locked":1', '"locked":"1"'),
      at('quote 900') + 1,
      'the database rejects one of the 5 rows of quotes that end here (other columns or types)',
    ],
    [
      change(quote, 'quote 13', 'quote 12'),
      at('quote 900') + 1,
      `the database rejects one of the 5 rows of quotes that end here (${
        isPostgres
          ? 'duplicate key value violates unique constraint "quotes_mint_url_quote_id_key"'
          : 'UNIQUE constraint failed: quotes.mint_url, quotes.quote_id'
      })`,
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
  const { stderr } = await importInto(to, older.replaceAll(/,"locked":[01]/g, ''));
  expect(stderr).toMatch(
    /rows of quotes .* \(other columns or types\)\.\nnutpost 0\.0\.1 wrote this archive: import it with that version, then upgrade\.\n$/,
  );
  expect((await importInto(to, older)).exitCode).toBe(0);
});

async function newDatabase(): Promise<Database> {
  return (await openTestDatabase()).database;
}

async function exportOf(database: Database): Promise<string> {
  const terminal = new TestTerminal();
  const { exitCode, stdout } = await runOperatorCommand(database, ['export'], { terminal });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '' });
  return terminal.output;
}

function importInto(database: Database, archive: string) {
  return runOperatorCommand(database, ['import'], { terminal: new TestTerminal(archive) });
}

/** All lines except the header, which contains the time. */
function rowsOf(archive: string): string[] {
  return archive.split('\n').slice(1);
}

/** Every row of every table, without the columns that an archive leaves out. */
async function contentOf({ db }: Database): Promise<Record<string, unknown[]>> {
  const content: Record<string, unknown[]> = {};
  for (const table of ARCHIVE_TABLES) {
    const left = EXCLUDED_COLUMNS[table] ?? [];
    const { rows } = await sql<object>`select * from ${sql.table(table)}`.execute(db);
    const kept = (row: object) => Object.entries(row).filter(([name]) => !left.includes(name));
    content[table] = rows.map((row) => JSON.stringify(kept(row))).sort();
  }
  return content;
}

async function countOf(database: Database): Promise<number> {
  return Object.values(await contentOf(database)).flat().length;
}
