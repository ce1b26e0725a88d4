import fs from 'node:fs';
import { type Config, readSystemUser } from '../../config.ts';
import { sqliteFilePath } from '../../database/data-dir.ts';
import { type DatabaseLocation, openDatabase, openForInspection } from '../../database/database.ts';
import { transaction } from '../../database/transaction.ts';
import { OperatorError } from '../../errors.ts';
import { recordAuditEvent } from '../../recipients/audit-store.ts';
import { importArchive, readLines } from '../archive/archive-commands.ts';
import { type CommandReport, defineCommand } from '../command.ts';
import type { CommandIo } from '../process-io.ts';
import { reportContent, syncToDisk } from './backup.ts';
import { inspectBackup, readBackupFormat } from './backup-file.ts';
import { computeFingerprints, listMissingSecrets, readManifest } from './backup-manifest.ts';
import { listTables } from './backup-store.ts';
import { runPostgresProgram } from './postgres-client.ts';

export const restoreCommand = defineCommand({
  name: 'restore',
  description:
    'restores a backup into an empty place: a database without tables, or a DATA_DIR without database; --other-secrets does so although secrets differ',
  options: { 'other-secrets': 'flag' },
  operands: [['<file>', String]],
  run: (config: Config, options, [file], io) =>
    restoreBackup(config, file, options['other-secrets'], io),
});

/**
 * Restores a backup into an empty place, and applies the migrations of this version. Reads all of it before it writes.
 *
 * @throws OperatorError if the backup is damaged, the place is not empty, or a secret is not that of the backup
 */
async function restoreBackup(
  config: Config,
  file: string,
  acceptsOtherSecrets: boolean,
  io: CommandIo,
): Promise<CommandReport> {
  process.umask(0o077);
  const { database: location } = config;
  const format = readBackupFormat(file);
  if (format !== 'archive' && format !== DATABASE_FORMATS[location.kind]) {
    throw new OperatorError(WRONG_DATABASE[format]);
  }
  await assertEmpty(location);
  const content = await inspectBackup(file, format);
  const manifest = readManifest(file);
  const missing = listMissingSecrets(manifest?.secrets ?? {}, computeFingerprints(config));
  if (missing.length > 0 && !acceptsOtherSecrets) {
    throw new OperatorError(
      `The backup was made with another ${missing.join(' and ')}. Restore the secrets first: into the settings, or as` +
        ' files in DATA_DIR. If they are lost, use --other-secrets.',
    );
  }
  const audit = { systemUser: readSystemUser(), atMs: Date.now() };
  if (format !== 'archive') {
    await restoreTables(location, file);
  }
  const database = await openDatabase(
    location,
    () => undefined,
    (line) => io.reportProgress(line),
  );
  const madeAt = manifest?.madeAt ?? null;
  try {
    if (format === 'archive') {
      await importArchive(database.db, readLines(fs.createReadStream(file)), io, audit);
    }
    await transaction(database.db, (tx) =>
      recordAuditEvent(tx, { ...audit, action: 'restore', after: { file, madeAt } }),
    );
  } finally {
    await database.close();
  }
  const { json, lines } = reportContent(format, content, audit.atMs);
  return {
    isSuccess: true,
    json: { file, ...json, madeAt, otherSecrets: missing },
    lines: [
      `Restored ${file}.`,
      ...lines,
      ...missing.map((name) => `  ${name} is not that of the backup.`),
      ...(manifest === null ? [`  Secrets were not compared: ${file}.json is missing.`] : []),
      'Start the service, and run `nutpost doctor`. Payments of invoices that are newer than the backup are not seen.',
    ],
  };
}

/** What `backup` writes if it can. */
const DATABASE_FORMATS = { sqlite: 'sqlite', postgres: 'dump' } as const;

const WRONG_DATABASE = {
  sqlite:
    'This is a copy of an SQLite database, and DATABASE_URL leads to PostgreSQL. Restore it without DATABASE_URL, and move' +
    ' the data with `nutpost export` and `nutpost import`.',
  dump: 'This is a dump of PostgreSQL: set DATABASE_URL to an empty database.',
};

/** @throws OperatorError if a restore would meet other data */
async function assertEmpty(location: DatabaseLocation): Promise<void> {
  if (location.kind === 'sqlite') {
    const database = sqliteFilePath(location.dataDir);
    // SQLite would add the transactions in the `-wal` file of another database.
    const existing = [database, `${database}-wal`].find((name) => fs.existsSync(name));
    if (existing !== undefined) {
      throw new OperatorError(`DATA_DIR: ${existing} exists already. Use another directory.`);
    }
    return;
  }
  const database = await openForInspection(location, 'command');
  try {
    const [table] = await listTables(database.db);
    if (table !== undefined) {
      throw new OperatorError(`The database is not empty: it has ${table}. Create another one.`);
    }
  } finally {
    await database.close();
  }
}

async function restoreTables(location: DatabaseLocation, file: string): Promise<void> {
  if (location.kind === 'sqlite') {
    copyDatabase(location.dataDir, file);
  } else {
    // Restores all or nothing. Comments and privileges may belong to a role that this server lacks.
    const options = ['--single-transaction', '--no-owner', '--no-privileges', '--no-comments'];
    await runPostgresProgram('pg_restore', location, [...options, file]);
  }
}

function copyDatabase(dataDir: string, file: string): void {
  const database = sqliteFilePath(dataDir);
  const unfinished = `${database}.unfinished`;
  try {
    fs.mkdirSync(dataDir, { recursive: true });
    fs.copyFileSync(file, unfinished);
    fs.chmodSync(unfinished, 0o600);
    syncToDisk(unfinished);
    fs.renameSync(unfinished, database);
    syncToDisk(dataDir);
  } catch (error) {
    throw new OperatorError(`DATA_DIR cannot be written: ${(error as Error).message}.`);
  }
}
