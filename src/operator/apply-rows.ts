import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type Db, type Tx, tryTransaction } from '../database/transaction.ts';
import { OperatorError } from '../errors.ts';
import { lockUsers } from '../recipients/user-store.ts';
import { type CommandReport, parsePubkey } from './command.ts';
import type { CommandIo } from './process-io.ts';

/** A line of a CSV file. Fields that are missing are empty. */
export type UserRow = Record<'npub' | 'name' | 'note', string>;

/** `text` says for people what was done, or why nothing can be. */
export interface RowResult {
  isDone: boolean;
  text: string;
}

/** Applies all rows in one transaction, or none if one fails or if `isApplied` is false. */
export async function applyRows(
  db: Db,
  rows: readonly Partial<UserRow>[],
  isApplied: boolean,
  apply: (tx: Tx, pubkey: string, row: UserRow) => Promise<RowResult>,
): Promise<CommandReport> {
  const results: RowResult[] = [];
  const isSuccess = () => results.every(({ isDone }) => isDone);
  const pubkeys = rows.flatMap(({ npub = '' }) => parsePubkey(npub) ?? []);
  const isChanged = await tryTransaction(db, async (tx) => {
    await lockUsers(tx, pubkeys);
    for (const { npub = '', name = '', note = '' } of rows) {
      const pubkey = parsePubkey(npub);
      const text = `${npub} is not a valid npub or key (hex): it may be cut off or mistyped.`;
      const row = { npub, name, note };
      results.push(pubkey === null ? { isDone: false, text } : await apply(tx, pubkey, row));
    }
    return isApplied && isSuccess();
  });
  const advice = isSuccess() ? 'Nothing was changed yet: --apply does it.' : 'Nothing was changed.';
  const lines = [...results.map((result) => result.text), ...(isChanged ? [] : [advice])];
  return { isSuccess: isSuccess(), json: { isChanged, results }, lines };
}

/** Reads a CSV file (RFC 4180, without line breaks in fields), or standard input for `-`. Its first line names columns. */
export async function readCsv(file: string, { stdin }: CommandIo, columns: readonly string[]) {
  const input = file === '-' ? (stdin ?? Readable.from([])) : createReadStream(file);
  const content = await text(input).catch((error: Error) => {
    throw new OperatorError(`Cannot read ${file}: ${error.message}`);
  });
  const lines = content
    .replace(/^\uFEFF/, '')
    .trimEnd()
    .split(/\r?\n/);
  const [header = [], ...rows] = lines.map((line) => {
    const fields = `,${line}`.matchAll(/,\s*(?:"((?:[^"]|"")*)"|([^,"]*))\s*(?=,|$)/g);
    return [...fields].map(([, quoted, bare = '']) =>
      (quoted?.replaceAll('""', '"') ?? bare).trim(),
    );
  });
  const wrongLine = rows.findIndex(({ length }) => length !== header.length);
  if (wrongLine !== -1 || !header.every((name) => columns.includes(name))) {
    throw new OperatorError(
      `${file} must begin with a line that names the columns, which can be ${columns.join(', ')}. ` +
        `Line ${wrongLine === -1 ? 1 : wrongLine + 2} does not fit. Nothing was changed.`,
    );
  }
  return rows.map((row) =>
    Object.fromEntries(columns.map((name) => [name, row[header.indexOf(name)] ?? ''])),
  );
}
