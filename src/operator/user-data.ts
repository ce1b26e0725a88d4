import { disableTimeouts, snapshot, tryTransaction } from '../database/transaction.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import type { StoredUser } from '../recipients/user-store.ts';
import { loadArchiveColumns, readArchivePages } from './archive/archive-store.ts';
import type { CommandContext, CommandReport } from './command.ts';
import { formatCount, formatFields, formatSat, pubkeyToText } from './format.ts';
import type { CommandIo } from './process-io.ts';
import { deleteUserData, listUserRows } from './user-data-store.ts';

/** Prints the rows of a user as an object of JSON, with an array for each table. */
export async function exportUser(
  { db }: CommandContext,
  { pubkey }: Pick<StoredUser, 'pubkey'>,
  _options: unknown,
  io: CommandIo,
): Promise<CommandReport> {
  await snapshot(db, async (tx) => {
    const columnsOf = await loadArchiveColumns(tx);
    await io.write(`{\n"pubkey": "${pubkey}"`);
    for (const { table, condition } of listUserRows(pubkey)) {
      await io.write(`,\n"${table}": [`);
      let separator = '\n';
      for await (const page of readArchivePages(tx, table, columnsOf(table), condition)) {
        await io.write(separator + page.map((row) => JSON.stringify(row)).join(',\n'));
        separator = ',\n';
      }
      await io.write(']');
    }
  });
  return { isSuccess: true, json: { outcome: 'exported', pubkey }, lines: [], output: '\n}\n' };
}

/** Deletes the data of a user, or says what would be deleted if `isApplied` is false. */
export async function deleteUser(
  { db, systemUser, clock }: CommandContext,
  { pubkey, user }: { pubkey: string; user: StoredUser | null },
  isApplied: boolean,
): Promise<CommandReport> {
  const name = user?.name ?? null;
  const who = pubkeyToText(pubkey, name);
  const deletion: { result: Awaited<ReturnType<typeof deleteUserData>> } = { result: 'not_found' };
  await tryTransaction(db, async (tx) => {
    await disableTimeouts(tx);
    const result = await deleteUserData(tx, pubkey);
    deletion.result = result;
    const after = typeof result === 'string' ? null : result;
    const event = { atMs: clock(), systemUser, action: 'user delete', pubkey, name };
    await recordAuditEvent(tx, { ...event, after });
    return isApplied;
  });
  const { result } = deletion;
  if (typeof result === 'string') {
    const text = {
      not_found: `The database has no data of ${who}: nothing was deleted.`,
      purchase_open: `${who} is buying a username: nothing was deleted. Try again when the purchase has ended.`,
    }[result];
    return { isSuccess: false, json: { outcome: result, pubkey }, lines: [text] };
  }
  const { deletedQuotes, keptQuotes, keptSat, keptBlock } = result;
  const keptText = `${formatCount(keptQuotes, 'invoice')} that can still be paid or collected (${formatSat(keptSat)} paid)`;
  const outcome = isApplied ? 'deleted' : 'would_be_deleted';
  return {
    isSuccess: true,
    json: { outcome, pubkey, name, ...result },
    lines: [
      isApplied
        ? `The data of ${who} is deleted.`
        : `The data of ${who} would be deleted; nothing was changed. --apply deletes it.`,
      ...formatFields(
        ['Deleted', `settings, notifications, and ${formatCount(deletedQuotes, 'invoice')}`],
        ['Free', name && `${name}: \`nutpost name reserve ${name}\` keeps it from others`],
        ['Kept', keptQuotes === 0 ? null : `${keptText}: repeat the command afterwards`],
        ['Kept', keptBlock ? 'the block' : null],
      ),
      'The key can be paid like any other that is unknown here.',
    ],
  };
}
