import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import {
  MAX_USERNAME_LENGTH,
  MIN_USERNAME_LENGTH,
  parseUsername,
} from '../recipients/lightning-address.ts';
import { RECIPIENT_CHANGES_CHANNEL } from '../recipients/recipient-directory.ts';
import type { TransactionStore } from '../store.ts';
import {
  isReservedUsername,
  resolveAvailability,
  type StoredUsername,
  type UsernameAvailability,
} from '../usernames/username-claim.ts';
import {
  type CommandContext,
  type CommandReport,
  createReportResult,
  type OperatorCommand,
  requireSingleOperand,
  UsageError,
} from './command.ts';
import { formatFields, formatTime, formatTimeWithDistance, pubkeyToJson } from './format.ts';

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
    const name = parseNameOperand(operands);
    const isTakeoverAllowed = values['in-use'] ?? false;
    return async (context) => {
      const report = await (action === 'show'
        ? showUsername(context, name)
        : changeUsername(context, action, name, isTakeoverAllowed));
      return createReportResult(report, values.json);
    };
  },
};

function parseNameOperand(operands: string[]): string {
  const username = parseUsername(requireSingleOperand(operands, 'Give one name.'));
  if (username === null) {
    throw new UsageError(
      `This is not a valid name. A name has ${MIN_USERNAME_LENGTH} to ${MAX_USERNAME_LENGTH} letters` +
        ' (a to z) and digits, and does not begin with npub1.',
    );
  }
  return username;
}

interface UsernameRecord {
  /** In lower case. */
  name: string;
  availability: UsernameAvailability;
  /** A free name may still have the row of its former owner. */
  stored: StoredUsername | null;
  /** The list that contains the name, even if a key uses the name. */
  reservedList: 'built_in' | 'setting' | null;
}

const RESERVED_LIST_TEXTS = {
  built_in: 'it is on the built-in list',
  setting: 'it is in USERNAME_RESERVED',
} as const;

function toUsernameRecord(
  name: string,
  stored: StoredUsername | null,
  reservedNames: readonly string[],
  nowMs: number,
): UsernameRecord {
  let reservedList: UsernameRecord['reservedList'] = null;
  if (isReservedUsername(name, reservedNames)) {
    reservedList = isReservedUsername(name, []) ? 'built_in' : 'setting';
  }
  const availability = resolveAvailability(stored, nowMs);
  const isReservedByList = availability === 'free' && reservedList !== null;
  return {
    name,
    availability: isReservedByList ? 'reserved' : availability,
    stored,
    reservedList,
  };
}

/** Renders a record for scripts. `key` is the owner, the former owner or the buyer. */
function recordToJson({ name, availability, stored, reservedList }: UsernameRecord): object {
  const pubkey = stored?.pubkey ?? null;
  return {
    name,
    standing: availability,
    list: reservedList,
    key: pubkey === null ? null : pubkeyToJson(pubkey, null),
    sinceMs: stored?.statusSinceMs,
    untilMs: stored?.reservedUntilMs,
    purchase: stored?.purchaseId,
  };
}

async function showUsername(
  { store, reservedNames, clock }: CommandContext,
  name: string,
): Promise<CommandReport> {
  const nowMs = clock();
  const stored = await store.usernames.find(name);
  const record = toUsernameRecord(name, stored, reservedNames, nowMs);
  return {
    isSuccess: true,
    json: { outcome: 'name', nowMs, ...recordToJson(record) },
    lines: [
      `${name} ${availabilityToText(record)}.`,
      ...(stored === null ? [] : storedUsernameToLines(stored, record, nowMs)),
    ],
  };
}

function availabilityToText({ availability, reservedList }: UsernameRecord): string {
  switch (availability) {
    case 'free':
      return 'is free';
    case 'in_use':
      return 'is in use';
    case 'pending':
      return 'is being bought';
    case 'in_grace':
      return 'was released: only its former owner can reclaim it, free of charge';
    case 'reserved':
      return `is reserved${reservedList === null ? '' : `: ${RESERVED_LIST_TEXTS[reservedList]}`}`;
  }
}

function storedUsernameToLines(
  { pubkey, status, statusSinceMs, reservedUntilMs, purchaseId }: StoredUsername,
  { availability, reservedList }: UsernameRecord,
  nowMs: number,
): string[] {
  const holders: Partial<Record<UsernameAvailability, string>> = {
    in_use: 'Owner',
    pending: 'Buyer',
  };
  const remainsReserved = reservedList !== null && availability !== 'reserved';
  return formatFields(
    [holders[availability] ?? 'Former owner', pubkey === null ? null : nip19.npubEncode(pubkey)],
    ['Key', pubkey],
    [status === 'released' ? 'Released' : 'Since', formatTimeWithDistance(statusSinceMs, nowMs)],
    [
      'Grace until',
      reservedUntilMs === null ? null : formatTimeWithDistance(reservedUntilMs, nowMs),
    ],
    ['Purchase', purchaseId],
    ['Once free', remainsReserved ? `still reserved: ${RESERVED_LIST_TEXTS[reservedList]}` : null],
  );
}

type Action = 'reserve' | 'release';

const SUCCESS_OUTCOMES = ['reserved', 'released', 'already_reserved', 'already_free'] as const;

/** With `overtaken`, a concurrent change won. */
type ChangeOutcome =
  | (typeof SUCCESS_OUTCOMES)[number]
  | 'in_use'
  | 'pending'
  | 'on_list'
  | 'overtaken';

/** Reserves a name, so that no user can have it, or releases it. */
async function changeUsername(
  { store, reservedNames, clock }: CommandContext,
  action: Action,
  name: string,
  isTakeoverAllowed: boolean,
): Promise<CommandReport> {
  const nowMs = clock();
  const { outcome, before } = await store.transaction(async (tx) => {
    const before = toUsernameRecord(name, await tx.usernames.find(name), reservedNames, nowMs);
    const rejection = checkChange(action, before, isTakeoverAllowed);
    return { outcome: rejection ?? (await applyChange(tx, action, before, nowMs)), before };
  });
  return {
    isSuccess: SUCCESS_OUTCOMES.some((each) => each === outcome),
    json: { outcome, nowMs, before: recordToJson(before) },
    lines: [changeToText(outcome, before, action)],
  };
}

/** Returns why the change is not made, or null if it can be. */
function checkChange(
  action: Action,
  { availability, stored, reservedList }: UsernameRecord,
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
      return reservedList !== null && stored?.status !== 'reserved' ? 'on_list' : null;
    case 'in_grace':
      return null;
  }
}

/** Each statement changes the name only if its status is still that of `before`. */
async function applyChange(
  tx: TransactionStore,
  action: Action,
  { name, availability }: UsernameRecord,
  nowMs: number,
): Promise<ChangeOutcome> {
  if (availability === 'in_use') {
    await tx.notify(RECIPIENT_CHANGES_CHANNEL, [name]);
    if (!(await tx.usernames.revoke(name))) {
      return 'overtaken';
    }
  } else if (availability !== 'free' && !(await tx.usernames.free(name))) {
    return 'overtaken';
  }
  if (action === 'release') {
    return 'released';
  }
  return (await tx.usernames.reserve(name, nowMs)) ? 'reserved' : 'overtaken';
}

function changeToText(outcome: ChangeOutcome, before: UsernameRecord, action: Action): string {
  const { name, stored, reservedList } = before;
  const listText = reservedList === null ? '' : RESERVED_LIST_TEXTS[reservedList];
  const since = `since ${formatTime(stored?.statusSinceMs ?? 0)}`;
  const by = stored?.pubkey == null ? '' : ` by ${nip19.npubEncode(stored.pubkey)} ${since}`;
  switch (outcome) {
    case 'reserved':
      return `${name} is now reserved.${previousHolderToText(before)}`;
    case 'released': {
      const result = listText === '' ? 'is now free.' : `stays reserved: ${listText}.`;
      return `${name} ${result}${previousHolderToText(before)}`;
    }
    case 'already_reserved':
      return `${name} is already reserved (${stored?.status === 'reserved' ? since : listText}).`;
    case 'already_free':
      return `${name} is already free.`;
    case 'in_use':
      return (
        `${name} is in use${by}: nothing was changed.` +
        ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.`
      );
    case 'pending':
      return `${name} is being bought${by}: nothing was changed. Try again when the purchase has ended.`;
    case 'on_list':
      return `${name} stays reserved (${listText}): no command can release it.`;
    case 'overtaken':
      return `${name} changed at the same time; nothing was done. Try again.`;
  }
}

/** Says who loses the name by a change. */
function previousHolderToText({ availability, stored }: UsernameRecord): string {
  const npub = stored?.pubkey == null ? '' : nip19.npubEncode(stored.pubkey);
  const since = formatTime(stored?.statusSinceMs ?? 0);
  switch (availability) {
    case 'in_use':
      return ` It was taken away from ${npub}, who had it since ${since} and can now be paid by npub only.`;
    case 'in_grace':
      return ` ${npub} had it before and could have reclaimed it until ${formatTime(stored?.reservedUntilMs ?? 0)}.`;
    case 'reserved':
      return ` It was reserved since ${since}.`;
    case 'free':
    case 'pending':
      return '';
  }
}
