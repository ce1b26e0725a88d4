import * as nip19 from 'nostr-tools/nip19';
import { type Db, notify, type Tx, transaction } from '../database/transaction.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import {
  isReservedUsername,
  looksLikeKey,
  MAX_USERNAME_LENGTH,
  MIN_USERNAME_LENGTH,
  parseUsername,
} from '../recipients/lightning-address.ts';
import { RECIPIENT_CHANGES_CHANNEL } from '../recipients/recipient-directory.ts';
import { recordNameChange } from '../usernames/record-name-change.ts';
import {
  claimUsername,
  decideClaim,
  findUsername,
  freeUsername,
  reserveUsername,
  resolveAvailability,
  revokeUsername,
  type StoredUsername,
  type UsernameAvailability,
} from '../usernames/username-store.ts';
import { applyRows, type RowResult, readCsv } from './apply-rows.ts';
import { type CommandContext, type CommandReport, defineCommand, UsageError } from './command.ts';
import { formatFields, formatTime, formatTimeWithDistance, pubkeyToText } from './format.ts';

const NAME = ['<name>', requireUsername] as const;

export const nameCommands = [
  defineCommand({
    name: 'name show',
    description: 'shows the owner of a name, or whether it is free',
    operands: [NAME],
    run: (context, _, [name]) => showUsername(context, name),
  }),
  defineChangeCommand(
    'reserve',
    'reserves a name so that no user can have it; --in-use takes it away from its owner',
  ),
  defineChangeCommand('release', 'makes a name free; --in-use takes it away from its owner'),
  defineCommand({
    name: 'name assign',
    synopsis: '<name> <npub | key> | --csv <file> [--apply]',
    description:
      'gives a name that is free or reserved to a key, free of charge; --csv checks lines with a name and an npub, of which the first is "name,npub" (the file - is standard input); --apply assigns all of them, or none if a line has a problem',
    options: { csv: String, apply: 'flag' },
    operands: [
      ['[name]', String],
      ['[npub | key]', String],
    ],
    check: ({ csv, apply }, [name, npub]) => {
      const isComplete = csv === null ? npub !== null && !apply : name === null;
      if (!isComplete) {
        throw new UsageError('Give one name and one npub or key (hex), or only --csv and a file.');
      }
    },
    run: async (context, { csv: file, apply }, [name, npub], io) => {
      const row = { name: name ?? '', npub: npub ?? '' };
      const rows = file === null ? [row] : await readCsv(file, io, ['name', 'npub']);
      return applyRows(context.db, rows, apply || file === null, (tx, pubkey, { name: assigned }) =>
        assignUsername(tx, context, pubkey, assigned),
      );
    },
  }),
];

function defineChangeCommand(action: 'reserve' | 'release', description: string) {
  return defineCommand({
    name: `name ${action}`,
    synopsis: '<name> [--in-use]',
    description,
    options: { 'in-use': 'flag' },
    operands: [NAME],
    run: (context, options, [name]) => changeUsername(context, action, name, options['in-use']),
  });
}

function requireUsername(text: string): string {
  const name = parseUsername(text);
  if (name === null) {
    throw new UsageError(
      `This is not a valid name. A name has ${MIN_USERNAME_LENGTH} to ${MAX_USERNAME_LENGTH} letters` +
        ' (a to z) and digits, and does not begin with npub1.',
    );
  }
  return name;
}

/** What is known about a name. The fields of `StoredUsername` are missing if the database has no row of it. */
interface UsernameRecord extends Partial<StoredUsername> {
  name: string;
  availability: UsernameAvailability;
  /** The list that reserves the name. It can still be in use, if it was sold before it was listed. */
  reservedList: 'built_in' | 'setting' | null;
}

async function readUsernameRecord(
  db: Db,
  name: string,
  reservedNames: readonly string[],
  nowMs: number,
): Promise<UsernameRecord> {
  const stored = await findUsername(db, name);
  let reservedList: UsernameRecord['reservedList'] = null;
  if (isReservedUsername(name, reservedNames)) {
    reservedList = isReservedUsername(name, []) ? 'built_in' : 'setting';
  }
  let availability = resolveAvailability(stored, nowMs);
  if (availability === 'free' && reservedList !== null) {
    availability = 'reserved';
  }
  return { ...stored, name, availability, reservedList };
}

async function showUsername(context: CommandContext, name: string): Promise<CommandReport> {
  const { config, db, clock } = context;
  const nowMs = clock();
  const record = await readUsernameRecord(db, name, config.usernames.reserved, nowMs);
  const { availability, status, statusSinceMs, graceEndsAtMs } = record;
  const listText = listToText(record);
  const availabilityTexts: Record<UsernameAvailability, string> = {
    free: 'is free',
    in_use: 'is in use',
    pending: 'is being bought',
    in_grace: 'was released: only its former owner can reclaim it, free of charge',
    reserved: listText ? `is reserved: ${listText}` : 'is reserved',
  };
  const lines = [`${name} ${availabilityTexts[availability]}.`];
  if (statusSinceMs !== undefined) {
    const keyLabels: Partial<typeof availabilityTexts> = { in_use: 'Owner', pending: 'Buyer' };
    const fields = formatFields(
      [keyLabels[availability] ?? 'Former owner', npubOf(record)],
      ['Key', record.pubkey],
      [status === 'released' ? 'Released' : 'Since', formatTimeWithDistance(statusSinceMs, nowMs)],
      ['Grace until', graceEndsAtMs ? formatTimeWithDistance(graceEndsAtMs, nowMs) : null],
      ['Purchase', record.purchaseId],
      ['Once free', listText && availability !== 'reserved' ? `still reserved: ${listText}` : null],
    );
    lines.push(...fields);
  }
  return { isSuccess: true, json: { outcome: 'found', nowMs, ...record }, lines };
}

async function changeUsername(
  { config, db, systemUser, clock }: CommandContext,
  action: 'reserve' | 'release',
  name: string,
  isTakeoverAllowed: boolean,
): Promise<CommandReport> {
  const nowMs = clock();
  return transaction(db, async (tx) => {
    const before = await readUsernameRecord(tx, name, config.usernames.reserved, nowMs);
    const report = (outcome: string, text: string): CommandReport => ({
      isSuccess: !FAILURES.includes(outcome),
      json: { outcome, nowMs, before },
      lines: [`${name} ${text}`],
    });
    const { availability, status, statusSinceMs = 0, graceEndsAtMs } = before;
    const listText = listToText(before);
    const npub = npubOf(before);
    const since = `since ${formatTime(statusSinceMs)}`;
    if (availability === 'pending') {
      const advice = 'nothing was changed. Try again when the purchase has ended.';
      return report('pending', `is being bought by ${npub} ${since}: ${advice}`);
    }
    if (availability === 'in_use' && !isTakeoverAllowed) {
      const advice = `\`nutpost name ${action} ${name} --in-use\` takes it away from its owner.`;
      return report('in_use', `is in use by ${npub} ${since}: nothing was changed. ${advice}`);
    }
    if (availability === 'free' && action === 'release') {
      return report('already_free', 'is already free.');
    }
    if (availability === 'reserved' && action === 'reserve') {
      const reason = status === 'reserved' ? since : listText;
      return report('already_reserved', `is already reserved (${reason}).`);
    }
    if (availability === 'reserved' && status !== 'reserved') {
      const text = `stays reserved (${listText}): no command can release it.`;
      return report('on_reserved_list', text);
    }
    const history = {
      free: '',
      in_use: ` It was taken away from ${npub}, who had it ${since} and can now be paid by npub only.`,
      reserved: ` It was reserved ${since}.`,
      in_grace: ` ${npub} had it before and could have reclaimed it until ${formatTime(graceEndsAtMs ?? 0)}.`,
    }[availability];
    let isFree = availability === 'free';
    if (availability === 'in_use') {
      await notify(tx, RECIPIENT_CHANGES_CHANNEL, [name]);
      isFree = await revokeUsername(tx, name, nowMs);
    } else if (!isFree) {
      isFree = await freeUsername(tx, name);
    }
    // A statement returns false if the name no longer has the status that was read.
    if (!isFree || (action === 'reserve' && !(await reserveUsername(tx, name, nowMs)))) {
      return report('conflict', 'changed at the same time; nothing was done. Try again.');
    }
    await recordAuditEvent(tx, {
      atMs: nowMs,
      systemUser,
      action: `name ${action}`,
      pubkey: before.pubkey ?? null,
      name,
      before: { availability, pubkey: before.pubkey },
      after: { availability: action === 'reserve' || listText !== null ? 'reserved' : 'free' },
    });
    if (action === 'reserve') {
      return report('reserved', `is now reserved.${history}`);
    }
    const stateText = listText === null ? 'is now free.' : `stays reserved: ${listText}.`;
    return report('released', `${stateText}${history}`);
  });
}

const FAILURES = ['pending', 'in_use', 'on_reserved_list', 'conflict'];

function listToText({ reservedList }: UsernameRecord): string | null {
  const texts = { built_in: 'it is on the built-in list', setting: 'it is in USERNAME_RESERVED' };
  return reservedList && texts[reservedList];
}

/** Returns the npub of the owner, the former owner or the buyer. */
function npubOf({ pubkey }: UsernameRecord): string {
  return pubkey ? nip19.npubEncode(pubkey) : '';
}

/** Gives a key a name that is free, reserved, or the key's own former one. Costs nothing. */
export async function assignUsername(
  tx: Tx,
  { config, systemUser, clock }: CommandContext,
  pubkey: string,
  nameText: string,
): Promise<RowResult> {
  const nowMs = clock();
  const name = parseUsername(nameText);
  const fail = (text: string) => ({ isDone: false, text });
  if (name === null || looksLikeKey(name)) {
    return fail(`${nameText} is not a valid name, or looks like a key.`);
  }
  const stored = await findUsername(tx, name);
  const claim = decideClaim(stored, pubkey, nowMs);
  if (claim === 'taken' || claim === 'buying') {
    const owner = nip19.npubEncode(stored?.pubkey ?? '');
    return fail(`${name} belongs to ${owner}: see \`nutpost name show ${name}\`.`);
  }
  if (claim !== 'owned') {
    const event = { atMs: nowMs, systemUser, action: 'name assign', pubkey };
    const isAssigned = await recordNameChange(tx, event, async () => {
      const isFree = claim !== 'reserved' || (await freeUsername(tx, name));
      return (
        isFree && claimUsername(tx, name, { pubkey, nowMs, graceMs: config.usernames.graceMs })
      );
    });
    if (!isAssigned) {
      return fail(`${name} changed at the same time: try again.`);
    }
  }
  return { isDone: true, text: `${pubkeyToText(pubkey, name)} has the name.` };
}
