import fs from 'node:fs';
import path from 'node:path';
import type { Config } from '../../config.ts';
import { recordBackup } from '../../database/newest-backup-store.ts';
import { type Db, snapshot } from '../../database/transaction.ts';
import { OperatorError, rootCauseMessage } from '../../errors.ts';
import { exportArchive } from '../archive/archive-commands.ts';
import { type CommandContext, type CommandReport, defineCommand } from '../command.ts';
import { readPostgres } from '../doctor/doctor-store.ts';
import {
  formatCount,
  formatFields,
  formatNumber,
  formatSat,
  formatTimeWithDistance,
} from '../format.ts';
import { parseIntegerFrom } from '../options.ts';
import type { CommandIo } from '../process-io.ts';
import {
  BACKUP_FORMATS,
  type BackupContent,
  type BackupFormat,
  inspectBackup,
} from './backup-file.ts';
import { computeFingerprints, toManifestFile, writeManifest } from './backup-manifest.ts';
import { copySqlite } from './backup-store.ts';
import { findDumpVersion, runPostgresProgram } from './postgres-client.ts';

export const backupCommand = defineCommand({
  name: 'backup',
  description:
    'writes a backup while the service runs, and reads it again; in a directory, --keep <number> deletes older ones',
  options: { keep: parseIntegerFrom(1, 99_999) },
  operands: [['<file or directory>', String]],
  run: (context, { keep }, [target], io) => makeBackup(context, target, keep, io),
});

/** The names of backups in a directory, which sort by their time, and those of the files beside them, also of SQLite. */
const NAME_PATTERN =
  /^(nutpost-\d{8}T\d{6}Z\.(?:sqlite|dump|ndjson))(\.json|\.unfinished(?:-journal)?)?$/;

/**
 * Writes a backup, reads all of it, and records that it exists. Only then deletes older ones.
 *
 * @param target a directory, or a file that does not exist
 * @param keep how many backups the directory may have; null: any number
 * @throws OperatorError if it cannot be written, or is not complete
 */
async function makeBackup(
  context: CommandContext,
  target: string,
  keep: number | null,
  io: CommandIo,
): Promise<CommandReport> {
  // Anyone who has a backup can take the money of unlocked quotes.
  process.umask(0o077);
  const isDirectory = fs.statSync(target, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isDirectory && keep !== null) {
    throw new OperatorError(`--keep needs a directory that exists, and ${target} is none.`);
  }
  const { config, db } = context;
  const nowMs = context.clock();
  const format = await chooseFormat(config, db);
  const name = isDirectory ? toFileName(nowMs, format) : '';
  const file = path.join(target, name);
  const content = await writeChecked(file, format, context, io, nowMs);
  await recordBackup(db, nowMs);
  const deleted = keep === null ? [] : deleteOldBackups(target, keep, name);
  const { json, lines } = reportContent(format, content, nowMs);
  return {
    isSuccess: true,
    json: { file, ...json, deleted },
    lines: [
      `Wrote ${file}, and read it again.`,
      ...lines,
      ...deleted.map((old) => `Deleted ${old}.`),
    ],
  };
}

/** The file has its name only when it is complete. */
async function writeChecked(
  file: string,
  format: BackupFormat,
  context: CommandContext,
  io: CommandIo,
  nowMs: number,
): Promise<BackupContent> {
  const existing = [file, toManifestFile(file)].find((name) => fs.existsSync(name));
  if (existing !== undefined) {
    throw new OperatorError(`${existing} exists already.`);
  }
  const unfinished = `${file}.unfinished`;
  try {
    fs.rmSync(unfinished, { force: true });
    await write(unfinished, format, context, io);
    const content = await inspectBackup(unfinished, format);
    syncToDisk(unfinished);
    writeManifest(file, computeFingerprints(context.config), nowMs);
    fs.renameSync(unfinished, file);
    syncToDisk(path.dirname(file));
    return content;
  } catch (error) {
    fs.rmSync(toManifestFile(file), { force: true });
    // Errors of the file system and SQLite, such as a full disk, have a code.
    throw error instanceof Error && 'code' in error
      ? new OperatorError(`${file} cannot be written: ${rootCauseMessage(error)}.`)
      : error;
  } finally {
    fs.rmSync(unfinished, { force: true });
  }
}

async function write(
  file: string,
  format: BackupFormat,
  { config: { database: location }, db, clock }: CommandContext,
  io: CommandIo,
): Promise<void> {
  if (location.kind === 'sqlite') {
    await copySqlite(db, file);
  } else if (format === 'dump') {
    await runPostgresProgram('pg_dump', location, ['--format=custom', `--file=${file}`]);
  } else {
    await using output = await fs.promises.open(file, 'wx');
    const write = (text: string) => output.appendFile(text);
    const reportProgress = (line: string) => io.reportProgress(line);
    await snapshot(db, (tx) => exportArchive(tx, { write, reportProgress }, clock()));
  }
}

async function chooseFormat({ database }: Config, db: Db): Promise<BackupFormat> {
  if (database.kind === 'sqlite') {
    return 'sqlite';
  }
  // pg_dump refuses a newer server, and an older one may reject its dump: version 17 writes a setting that 16 lacks.
  const { majorVersion } = await readPostgres(db);
  return majorVersion === (await findDumpVersion()) ? 'dump' : 'archive';
}

/** Writes to the disk what the operating system still holds in memory. */
export function syncToDisk(fileOrDirectory: string): void {
  const descriptor = fs.openSync(fileOrDirectory, 'r');
  fs.fsyncSync(descriptor);
  fs.closeSync(descriptor);
}

/**
 * Deletes all but the newest backups, and what interrupted ones have left. Keeps the one that was just written, although
 * its name is not the newest if the clock was set back. Returns the names of deleted backups.
 */
function deleteOldBackups(directory: string, keptCount: number, written: string): string[] {
  const files = fs.readdirSync(directory).flatMap((file) => {
    const name = NAME_PATTERN.exec(file)?.[1];
    return name === undefined ? [] : [{ file, name }];
  });
  const others = files
    .filter(({ file, name }) => file === name && name !== written)
    .map(({ name }) => name)
    .sort();
  const old = others.slice(0, Math.max(0, others.length - (keptCount - 1)));
  const oldestKept = others[old.length] ?? written;
  for (const { file, name } of files) {
    if (name !== written && (old.includes(name) || name < oldestKept)) {
      fs.rmSync(path.join(directory, file));
    }
  }
  return old;
}

function toFileName(nowMs: number, format: BackupFormat): string {
  const time = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '');
  return `nutpost-${time}.${BACKUP_FORMATS[format].extension}`;
}

/** What `backup` and `restore` print about a file. */
export function reportContent(
  format: BackupFormat,
  { rows, newestPayment }: BackupContent,
  nowMs: number,
): { json: object; lines: string[] } {
  const rowCount = Object.values(rows).reduce((sum, count) => sum + count, 0);
  const newest =
    newestPayment &&
    `${formatSat(newestPayment.amountSat)}, ${formatTimeWithDistance(newestPayment.paidAtMs, nowMs)}`;
  return {
    json: { format, rows, newestPayment },
    lines: formatFields(
      ['format', BACKUP_FORMATS[format].name],
      ['rows', `${formatNumber(rowCount)}, of ${formatCount(rows['users'] ?? 0, 'user')}`],
      ['last payment', newest ?? 'none'],
    ),
  };
}
