import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import { type Db, notify, type Tx, transaction } from '../database/transaction.ts';
import {
  isReservedUsername,
  MAX_USERNAME_LENGTH,
  MIN_USERNAME_LENGTH,
  parseUsername,
} from '../recipients/lightning-address.ts';
import { RECIPIENT_CHANGES_CHANNEL } from '../recipients/recipient-directory.ts';
import {
  findUsername,
  freeUsername,
  reserveUsername,
  resolveAvailability,
  revokeUsername,
  type StoredUsername,
  type UsernameAvailability,
} from '../usernames/username-store.ts';
import {
  type CommandContext,
  type CommandReport,
  createReportResult,
  type OperatorCommand,
  requireSingleOperand,
  UsageError,
} from './command.ts';
import { formatFields, formatTime, formatTimeWithDistance } from './format.ts';

export const nameCommand: OperatorCommand = {
  name: 'name',
  usage: `  name show <name>
           shows the owner of a name, or whether it is free
  name reserve <name> [--in-use]
           reserves a name so that no user can have it; --in-use takes it away from its owner
  name release <name> [--in-use]
           makes a name free; --in-use takes it away from its owner. All three accept --json, for
           scripts
`,
  parse: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: { json: { type: 'boolean', default: false }, 'in-use': { type: 'boolean' } },
      allowPositionals: true,
    });
    const [action, ...operands] = positionals;
    if (action !== 'show' && action !== 'reserve' && action !== 'release') {
      throw new UsageError('Give show, reserve or release, and one name.');
    }
    if (action === 'show' && values['in-use'] !== undefined) {
      throw new UsageError('--in-use is only for `name reserve` and `name release`.');
    }
    const name = parseUsername(requireSingleOperand(operands, 'Give one name.'));
    if (name === null) {
      throw new UsageError(
        `This is not a valid name. A name has ${MIN_USERNAME_LENGTH} to ${MAX_USERNAME_LENGTH} letters` +
          ' (a to z) and digits, and does not begin with npub1.',
      );
    }
    const isTakeoverAllowed = values['in-use'] ?? false;
    return async (context) => {
      const report = await (action === 'show'
        ? showUsername(context, name)
        : changeUsername(context, action, name, isTakeoverAllowed));
      return createReportResult(report, values.json);
    };
  },
};

/** A free name may still have the row of its former owner, and a name on a list of reserved names may be in use. */
interface UsernameRecord extends Partial<StoredUsername> {
  name: string;
  availability: UsernameAvailability;
  reservedList: 'built_in' | 'setting' | null;
}

const RESERVED_LIST_TEXTS = {
  built_in: 'it is on the built-in list',
  setting: 'it is in USERNAME_RESERVED',
} as const;

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
  const availability = resolveAvailability(stored, nowMs);
  const isReserved = availability === 'free' && reservedList !== null;
  return { ...stored, name, availability: isReserved ? 'reserved' : availability, reservedList };
}

async function showUsername(
  { db, reservedNames, clock }: CommandContext,
  name: string,
): Promise<CommandReport> {
  const nowMs = clock();
  const record = await readUsernameRecord(db, name, reservedNames, nowMs);
  const { availability, status, statusSinceMs, graceEndsAtMs, reservedList } = record;
  const listText = reservedList && RESERVED_LIST_TEXTS[reservedList];
  const stateTexts: Record<UsernameAvailability, string> = {
    free: 'is free',
    in_use: 'is in use',
    pending: 'is being bought',
    in_grace: 'was released: only its former owner can reclaim it, free of charge',
    reserved: listText ? `is reserved: ${listText}` : 'is reserved',
  };
  const fields = (sinceMs: number) =>
    formatFields(
      [HOLDER_LABELS[availability] ?? 'Former owner', npubOf(record)],
      ['Key', record.pubkey],
      [status === 'released' ? 'Released' : 'Since', formatTimeWithDistance(sinceMs, nowMs)],
      ['Grace until', graceEndsAtMs ? formatTimeWithDistance(graceEndsAtMs, nowMs) : null],
      ['Purchase', record.purchaseId],
      ['Once free', listText && availability !== 'reserved' ? `still reserved: ${listText}` : null],
    );
  return {
    isSuccess: true,
    json: { outcome: 'found', nowMs, ...record },
    lines: [
      `${name} ${stateTexts[availability]}.`,
      ...(statusSinceMs === undefined ? [] : fields(statusSinceMs)),
    ],
  };
}

const HOLDER_LABELS: Partial<Record<UsernameAvailability, string>> = {
  in_use: 'Owner',
  pending: 'Buyer',
};

type Action = 'reserve' | 'release';

const SUCCESS_OUTCOMES = ['reserved', 'released', 'already_reserved', 'already_free'] as const;

/** `conflict`: the name changed at the same time. */
type ChangeOutcome =
  | (typeof SUCCESS_OUTCOMES)[number]
  | 'in_use'
  | 'pending'
  | 'on_reserved_list'
  | 'conflict';

async function changeUsername(
  { db, reservedNames, clock }: CommandContext,
  action: Action,
  name: string,
  isTakeoverAllowed: boolean,
): Promise<CommandReport> {
  const nowMs = clock();
  const { outcome, before } = await transaction(db, async (tx) => {
    const record = await readUsernameRecord(tx, name, reservedNames, nowMs);
    const rejection = checkChange(action, record, isTakeoverAllowed);
    return { outcome: rejection ?? (await applyChange(tx, action, record, nowMs)), before: record };
  });
  return {
    isSuccess: SUCCESS_OUTCOMES.some((each) => each === outcome),
    json: { outcome, nowMs, before },
    lines: [changeToText(outcome, before, action)],
  };
}

/** Returns null if the change can be made. */
function checkChange(
  action: Action,
  { availability, status, reservedList }: UsernameRecord,
  isTakeoverAllowed: boolean,
): ChangeOutcome | null {
  switch (availability) {
    case 'pending':
      return 'pending';
    case 'in_use':
      return isTakeoverAllowed ? null : 'in_use';
    case 'free':
      return action === 'release' ? 'already_free' : null;
    case 'reserved':
      if (action === 'reserve') {
        return 'already_reserved';
      }
      return reservedList !== null && status !== 'reserved' ? 'on_reserved_list' : null;
    case 'in_grace':
      return null;
  }
}

/** Each statement changes the name only if the name still has the status that was read. */
async function applyChange(
  tx: Tx,
  action: Action,
  { name, availability }: UsernameRecord,
  nowMs: number,
): Promise<ChangeOutcome> {
  if (availability === 'in_use') {
    await notify(tx, RECIPIENT_CHANGES_CHANNEL, [name]);
    if (!(await revokeUsername(tx, name, nowMs))) {
      return 'conflict';
    }
  } else if (availability !== 'free' && !(await freeUsername(tx, name))) {
    return 'conflict';
  }
  if (action === 'release') {
    return 'released';
  }
  return (await reserveUsername(tx, name, nowMs)) ? 'reserved' : 'conflict';
}

function changeToText(outcome: ChangeOutcome, before: UsernameRecord, action: Action): string {
  const { name, status, reservedList } = before;
  const listText = reservedList === null ? '' : RESERVED_LIST_TEXTS[reservedList];
  const since = `since ${formatTime(before.statusSinceMs ?? 0)}`;
  const byWhom = `by ${npubOf(before)} ${since}`;
  switch (outcome) {
    case 'reserved':
      return `${name} is now reserved.${previousHolderToText(before, since)}`;
    case 'released': {
      const result = listText === '' ? 'is now free.' : `stays reserved: ${listText}.`;
      return `${name} ${result}${previousHolderToText(before, since)}`;
    }
    case 'already_reserved':
      return `${name} is already reserved (${status === 'reserved' ? since : listText}).`;
    case 'already_free':
      return `${name} is already free.`;
    case 'in_use':
      return (
        `${name} is in use ${byWhom}: nothing was changed.` +
        ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.`
      );
    case 'pending':
      return `${name} is being bought ${byWhom}: nothing was changed. Try again when the purchase has ended.`;
    case 'on_reserved_list':
      return `${name} stays reserved (${listText}): no command can release it.`;
    case 'conflict':
      return `${name} changed at the same time; nothing was done. Try again.`;
  }
}

function previousHolderToText(before: UsernameRecord, since: string): string {
  const npub = npubOf(before);
  switch (before.availability) {
    case 'in_use':
      return ` It was taken away from ${npub}, who had it ${since} and can now be paid by npub only.`;
    case 'in_grace':
      return ` ${npub} had it before and could have reclaimed it until ${formatTime(before.graceEndsAtMs ?? 0)}.`;
    case 'reserved':
      return ` It was reserved ${since}.`;
    default:
      return '';
  }
}

/** Returns the npub of the owner, the former owner or the buyer. */
function npubOf({ pubkey }: UsernameRecord): string {
  return pubkey ? nip19.npubEncode(pubkey) : '';
}
