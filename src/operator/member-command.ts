import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { type Tx, transaction } from '../database/transaction.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import { addInvitation, changeMembership } from '../recipients/member-store.ts';
import { findUserByPubkey } from '../recipients/user-store.ts';
import { applyRows, type RowResult, readCsv } from './apply-rows.ts';
import { assignUsername } from './assign-username.ts';
import {
  type CommandContext,
  NOTE_PATTERN,
  type OperatorCommand,
  parseAction,
  parseNote,
  parsePubkey,
  renderReport,
  requireSingleOperand,
  UsageError,
} from './command.ts';
import { formatTime, pubkeyToText } from './format.ts';
import { parseUserList } from './user-list.ts';

export const memberCommand: OperatorCommand = {
  name: 'member',
  usage: `  member add <npub | key> [--name <name>] [--note <text>]
           makes a key a member, who can be paid with RECIPIENTS=members, and gives it a name
  member remove <npub | key>
           ends a membership: there are no new payments, and earlier ones can be collected
  member list
           lists the members, with the options of \`user list\`
  member import <file> [--apply]
           checks lines with npub, name and note, which the first line names; the file - is
           standard input; --apply adds all of them, or none if a line has a problem
  member invite [--note <text>] [--days <number>]
           prints a link with which one person becomes a member, within 14 days or as many as
           given. All of these commands accept --json, for scripts
`,
  parse: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean' },
        name: { type: 'string' },
        note: { type: 'string' },
        days: { type: 'string' },
        limit: { type: 'string' },
        page: { type: 'string' },
        apply: { type: 'boolean' },
      },
      allowPositionals: true,
    });
    const { json: isJson = false, name = '', days = '14', apply: isApplied = false } = values;
    const action = parseAction(OPTIONS_BY_ACTION, positionals[0], values);
    const operands = positionals.slice(1);
    const note = parseNote('--note', values.note) ?? '';
    if (action === 'list') {
      const report = parseUserList(operands, { ...values, member: true });
      return async (context) => renderReport(await report(context), isJson);
    }
    if (action === 'invite') {
      if (operands.length > 0 || !/^[1-9]\d{0,2}$/.test(days)) {
        throw new UsageError('Give --days as a number from 1 to 999, and nothing else but --note.');
      }
      return async (context) => renderReport(await invite(context, note, Number(days)), isJson);
    }
    const operand = requireSingleOperand(operands, 'Give one npub or key (hex), or one file.');
    const isImport = action === 'import';
    return async (context, io) => {
      const rows = isImport
        ? await readCsv(operand, io, ['npub', 'name', 'note'])
        : [{ npub: operand, name, note }];
      const apply = (tx: Tx, row: MemberRow) => changeMember(tx, context, action !== 'remove', row);
      const report = await applyRows(context.db, rows, isApplied || !isImport, apply);
      return renderReport(report, isJson);
    };
  },
};

const OPTIONS_BY_ACTION = {
  add: ['name', 'note'],
  remove: [],
  list: ['limit', 'page'],
  import: ['apply'],
  invite: ['note', 'days'],
};

/** Missing fields are empty. */
interface MemberRow {
  npub?: string;
  name?: string;
  note?: string;
}

/** Adds a member, with a name unless that is empty, or removes one. */
async function changeMember(
  tx: Tx,
  context: CommandContext,
  isMember: boolean,
  { npub = '', name = '', note = '' }: MemberRow,
): Promise<RowResult> {
  const pubkey = parsePubkey(npub);
  if (pubkey === null) {
    return { isDone: false, text: `${npub} is not a valid npub or key (hex).` };
  }
  if (note !== '' && !NOTE_PATTERN.test(note)) {
    return {
      isDone: false,
      text: `The note of ${npub} must be one line of at most 500 characters.`,
    };
  }
  const { actor, clock } = context;
  const action = isMember ? 'member add' : 'member remove';
  const change = { pubkey, isMember, note: note || null, actor, action, nowMs: clock() } as const;
  await changeMembership(tx, change);
  const naming = name === '' ? null : await assignUsername(tx, context, { name, npub });
  if (naming?.isDone === false) {
    return naming;
  }
  const storedName = (await findUserByPubkey(tx, pubkey))?.name ?? null;
  const keepsName = storedName === null ? '' : ' and keeps the name';
  const text = isMember ? 'is a member' : `is no member${keepsName}`;
  return { isDone: true, text: `${pubkeyToText(pubkey, storedName)} ${text}.` };
}

async function invite(
  { db, actor, publicOrigin, clock }: CommandContext,
  note: string,
  days: number,
) {
  const nowMs = clock();
  const code = randomBytes(16).toString('base64url');
  const expiresAtMs = nowMs + days * 86_400_000;
  await transaction(db, async (tx) => {
    await addInvitation(tx, code, { note: note || null, nowMs, expiresAtMs });
    const event = { atMs: nowMs, actor, action: 'member invite', pubkey: null, name: null };
    await recordAuditEvent(tx, { ...event, before: null, after: { note, expiresAtMs } });
  });
  const url = `${publicOrigin}/account#invitation=${code}`;
  const lines = [url, `One person can use it, until ${formatTime(expiresAtMs)}.`];
  return { isSuccess: true, json: { url, expiresAtMs }, lines };
}
