import { sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { Database } from '../../src/database/database.ts';
import { ARCHIVE_TABLES, EXCLUDED_COLUMNS } from '../../src/operator/archive/archive-store.ts';
import {
  insertRowsInEveryTable,
  RECIPIENT_WITH_USERNAME,
} from '../helpers/database/rows-of-every-table.ts';
import {
  isPostgres,
  openTestDatabase,
  useTestDatabase,
} from '../helpers/database/test-database.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { FakeTerminal } from '../helpers/service/fake-terminal.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';

/** Tables of running processes, migrations and backups. */
const EXCLUDED_TABLES = [
  'alerts',
  'kysely_migration',
  'kysely_migration_lock',
  'mint_leases',
  'newest_backup',
  'watch_processes',
];

/** Has a value in every column. */
const source = useTestDatabase();
let archive: string;
beforeAll(async () => {
  await insertRowsInEveryTable(source);
  archive = await exportArchive(source);
});

it('exports every table, except those of running processes and migrations', async () => {
  const introspected = await source.db.introspection.getTables({
    withInternalKyselyTables: true,
  });
  const tables = introspected.map(({ name }) => name);
  expect(tables.sort()).toEqual([...ARCHIVE_TABLES, ...EXCLUDED_TABLES].sort());
});

it('exports no payments that are recorded during the export', async () => {
  const [from, to] = [await createDatabase(), await createDatabase()];
  await insertPaidQuotes(from, RECIPIENT_WITH_USERNAME, 2_000);
  const laterInserts: Promise<unknown>[] = [];
  // Inserts two payments when the export writes its first text.
  const terminal = new (class extends FakeTerminal {
    override async write(text: string): Promise<void> {
      await super.write(text);
      if (laterInserts.length === 0) {
        laterInserts.push(insertPaidQuotes(from, 'd4'.repeat(32), 2));
        // With SQLite, the insert waits for the export, because both use the same connection.
        await Promise.all(isPostgres ? laterInserts : []);
      }
    }
  })();
  expect((await runOperatorCommand(from, ['export'], { terminal })).stderr).toContain(
    '  quotes  2,000\n',
  );
  await Promise.all(laterInserts);
  expect(terminal.progressLines.at(-1)).toBe('Exported 2,001 of 2,001 rows (100 %)');
  const imported = await importInto(to, terminal.output, '--json');
  expect(imported.exitCode).toBe(0);
  expect(JSON.parse(imported.stdout)).toMatchObject({
    outcome: 'imported',
    rows: { quotes: 2_000 },
  });
  expect((await runOperatorCommand(from, ['export'])).stderr).toContain('  quotes  2,002\n');
});

it('does not import into a database that has rows, and does not change these', async () => {
  const to = await createDatabase();
  await assignUsername(to, 'd4'.repeat(32), 'dora');
  const before = await readContent(to);
  await expect(importInto(to, archive)).rejects.toThrow(
    'Nothing was imported: the database is not empty (usernames, users).\n',
  );
  expect(await readContent(to)).toEqual(before);
});

it.runIf(isPostgres)('gives new rows other ids than those of imported rows', async () => {
  const to = await createDatabase();
  expect((await importInto(to, archive)).exitCode).toBe(0);
  const { db } = to;
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns
    where table_schema = current_schema() and column_name = 'id' and is_identity = 'YES'
  `.execute(db);
  expect(tables.map(({ name }) => name)).toContain('notifications');
  for (const { name } of tables) {
    const { rows } = await sql<{ next: number; greatest: number }>`
      select nextval(pg_get_serial_sequence(${name}, 'id')) as next, max(id) as greatest
      from ${sql.table(name)}
    `.execute(db);
    expect(Number(rows[0]?.next), name).toBe(Number(rows[0]?.greatest) + 1);
  }
});

it('reports the number and the problem of an invalid line, and imports nothing', async () => {
  const validLines = archive.trimEnd().split('\n');
  const findLine = (part: string) => validLines.findIndex((line) => line.includes(part));
  const changeLine = (part: string, from: string | RegExp, to: string) =>
    validLines.with(findLine(part), (validLines[findLine(part)] ?? '').replace(from, to));
  const quote = '"quote_id":"quote 13"';
  // The import inserts the rows of `quotes` in one batch, which ends at the line with `quote 900`.
  const batchEnd = findLine('quote 900') + 1;
  const notFirst = 'is not the first line of an archive that this nutpost can read';
  const notARow = 'is not a row of an archive';
  const rejected = 'the database rejects one of the 5 rows of quotes that end here';
  const missing = 'is the last one, with 1 of 2 rows of treasury_proofs';
  const duplicate = isPostgres ? 'duplicate key value' : 'UNIQUE constraint failed: quotes';
  const cases: [lines: string[], lineNumber: number, problem: string][] = [
    [changeLine('"archive"', '"users":', '"people":'), 1, notFirst],
    [changeLine(quote, '}}', '}'), findLine(quote) + 1, notARow],
    [changeLine(quote, '"locked":1', '"locked":true'), findLine(quote) + 1, notARow],
    [changeLine(quote, '"locked":1', '"locked":"1"'), batchEnd, `${rejected} (other columns`],
    [changeLine(quote, 'quote 13', 'quote 12'), batchEnd, `${rejected} (${duplicate}`],
    [validLines.slice(0, -1), validLines.length - 1, missing],
  ];
  const to = await createDatabase();
  for (const [lines, lineNumber, problem] of cases) {
    await expect(importInto(to, lines.map((line) => `${line}\n`).join(''))).rejects.toThrow(
      `Nothing was imported. Line ${lineNumber}: ${problem}`,
    );
    expect(await countRows(to)).toBe(0);
  }
  // The last line need not end with a line break.
  expect((await importInto(to, validLines.join('\n'))).exitCode).toBe(0);
});

async function createDatabase(): Promise<Database> {
  return (await openTestDatabase()).database;
}

async function exportArchive(database: Database): Promise<string> {
  const terminal = new FakeTerminal();
  const { exitCode, stdout } = await runOperatorCommand(database, ['export'], { terminal });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '' });
  return terminal.output;
}

function importInto(database: Database, archive: string, ...options: string[]) {
  const terminal = new FakeTerminal(archive);
  return runOperatorCommand(database, ['import', ...options], { terminal });
}

async function readContent({ db }: Database): Promise<Record<string, unknown[]>> {
  const content: Record<string, unknown[]> = {};
  for (const table of ARCHIVE_TABLES) {
    const excluded = EXCLUDED_COLUMNS[table] ?? [];
    const { rows } = await sql<object>`select * from ${sql.table(table)}`.execute(db);
    const exportedEntries = (row: object) =>
      Object.entries(row).filter(([column]) => !excluded.includes(column));
    content[table] = rows.map((row) => JSON.stringify(exportedEntries(row))).sort();
  }
  return content;
}

async function countRows(database: Database): Promise<number> {
  return Object.values(await readContent(database)).flat().length;
}
