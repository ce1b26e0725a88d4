import { randomBytes } from 'node:crypto';
import { type Tx, transaction } from '../database/transaction.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import { addInvitation, changeMembership } from '../recipients/member-store.ts';
import { findUserByPubkey } from '../recipients/user-store.ts';
import { applyRows, type RowResult, readCsv, type UserRow } from './apply-rows.ts';
import { type CommandContext, type CommandReport, defineCommand } from './command.ts';
import { formatTime, pubkeyToText } from './format.ts';
import { NOTE_PATTERN, parseIntegerFrom, parseNote } from './options.ts';
import { reportUsers, USER_PAGE_OPTIONS } from './user-command.ts';
import { assignUsername } from './username-command.ts';

const KEY = ['<npub | key>', String] as const;

export const memberCommands = [
  defineCommand({
    name: 'member add',
    synopsis: '<npub | key> [--name <name>] [--note <text>]',
    description:
      'makes a key a member, who can be paid with RECIPIENTS=members, and gives it a name',
    options: { name: String, note: parseNote },
    operands: [KEY],
    run: (context, { name, note }, [npub]) => {
      const row = { npub, name: name ?? '', note: note ?? '' };
      return changeMembers(context, 'add', [row], true);
    },
  }),
  defineCommand({
    name: 'member remove',
    description: 'ends a membership: there are no new payments, and earlier ones can be collected',
    operands: [KEY],
    run: (context, _, [npub]) => changeMembers(context, 'remove', [{ npub }], true),
  }),
  defineCommand({
    name: 'member list',
    description: 'lists the members, with the options of `user list`',
    options: USER_PAGE_OPTIONS,
    run: (context, page) => reportUsers(context, MEMBERS, page),
  }),
  defineCommand({
    name: 'member import',
    synopsis: '<file> [--apply]',
    description:
      'checks lines with npub, name and note, which the first line names; the file - is standard input; --apply adds all of them, or none if a line has a problem',
    options: { apply: 'flag' },
    operands: [['<file>', String]],
    run: async (context, { apply }, [file], io) => {
      const rows = await readCsv(file, io, ['npub', 'name', 'note']);
      return changeMembers(context, 'add', rows, apply);
    },
  }),
  defineCommand({
    name: 'member invite',
    synopsis: '[--note <text>] [--days <number>]',
    description:
      'prints a link with which one person becomes a member, within 14 days or as many as given',
    options: { note: parseNote, days: parseIntegerFrom(1, 999) },
    run: (context, { note, days }) => invite(context, note, days ?? 14),
  }),
];

const MEMBERS = { isBlocked: false, isMember: true, isUncollected: false, mintUrl: null };

/** Adds members, with names unless those are empty, or removes them; all or none. */
async function changeMembers(
  context: CommandContext,
  change: 'add' | 'remove',
  rows: readonly Partial<UserRow>[],
  isApplied: boolean,
): Promise<CommandReport> {
  return applyRows(context.db, rows, isApplied, (tx, pubkey, row) =>
    changeMember(tx, context, change, pubkey, row),
  );
}

async function changeMember(
  tx: Tx,
  context: CommandContext,
  change: 'add' | 'remove',
  pubkey: string,
  { npub, name, note }: UserRow,
): Promise<RowResult> {
  if (note !== '' && !NOTE_PATTERN.test(note)) {
    return {
      isDone: false,
      text: `The note of ${npub} must be one line of at most 500 characters.`,
    };
  }
  const { systemUser, clock } = context;
  const isMember = change === 'add';
  await changeMembership(tx, {
    ...{ pubkey, isMember, note: note || null },
    ...{ systemUser, action: `member ${change}`, nowMs: clock() },
  });
  const naming = name === '' ? null : await assignUsername(tx, context, pubkey, name);
  if (naming?.isDone === false) {
    return naming;
  }
  const storedName = (await findUserByPubkey(tx, pubkey))?.name ?? null;
  const keepsName = storedName === null ? '' : ' and keeps the name';
  const text = isMember ? 'is a member' : `is no member${keepsName}`;
  return { isDone: true, text: `${pubkeyToText(pubkey, storedName)} ${text}.` };
}

async function invite(
  { config, db, systemUser, clock }: CommandContext,
  note: string | null,
  days: number,
) {
  const nowMs = clock();
  const code = randomBytes(16).toString('base64url');
  const expiresAtMs = nowMs + days * 86_400_000;
  await transaction(db, async (tx) => {
    await addInvitation(tx, code, { note, nowMs, expiresAtMs });
    const after = { note, expiresAtMs };
    await recordAuditEvent(tx, { atMs: nowMs, systemUser, action: 'member invite', after });
  });
  const origin = config.publicOrigins[0] ?? `http://localhost:${config.port}`;
  const url = `${origin}/account#invitation=${code}`;
  const lines = [url, `One person can use it, until ${formatTime(expiresAtMs)}.`];
  if (!config.membersOnly) {
    lines.push('It has no effect as long as RECIPIENTS=members is not set.');
  }
  return { isSuccess: true, json: { url, expiresAtMs }, lines };
}
