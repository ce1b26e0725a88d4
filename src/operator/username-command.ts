import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import { type Db, notify, transaction } from '../database/transaction.ts';
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
  const holderLabel =
    { in_use: 'Owner', pending: 'Buyer' }[availability as string] ?? 'Former owner';
  const fields = (sinceMs: number) =>
    formatFields(
      [holderLabel, npubOf(record)],
      ['Key', record.pubkey],
      [status === 'released' ? 'Released' : 'Since', formatTimeWithDistance(sinceMs, nowMs)],
      ['Grace until', graceEndsAtMs ? formatTimeWithDistance(graceEndsAtMs, nowMs) : null],
      ['Purchase', record.purchaseId],
      ['Once free', listText && availability !== 'reserved' ? `still reserved: ${listText}` : null],
    );
  const lines = statusSinceMs === undefined ? [] : fields(statusSinceMs);
  return {
    isSuccess: true,
    json: { outcome: 'found', nowMs, ...record },
    lines: [`${name} ${stateTexts[availability]}.`, ...lines],
  };
}

async function changeUsername(
  { db, reservedNames, clock }: CommandContext,
  action: 'reserve' | 'release',
  name: string,
  isTakeoverAllowed: boolean,
): Promise<CommandReport> {
  const nowMs = clock();
  return transaction(db, async (tx) => {
    const before = await readUsernameRecord(tx, name, reservedNames, nowMs);
    const { availability, status, statusSinceMs = 0, graceEndsAtMs } = before;
    const report = (isSuccess: boolean, outcome: string, text: string): CommandReport => ({
      isSuccess,
      json: { outcome, nowMs, before },
      lines: [`${name} ${text}`],
    });
    const listText = before.reservedList && RESERVED_LIST_TEXTS[before.reservedList];
    const npub = npubOf(before);
    const since = `since ${formatTime(statusSinceMs)}`;
    let historyText = '';
    switch (availability) {
      case 'pending':
        return report(
          false,
          'pending',
          `is being bought by ${npub} ${since}: nothing was changed. Try again when the purchase has ended.`,
        );
      case 'in_use':
        if (!isTakeoverAllowed) {
          const advice = `\`nutpost name ${action} ${name} --in-use\` takes it away from its owner.`;
          const text = `is in use by ${npub} ${since}: nothing was changed. ${advice}`;
          return report(false, 'in_use', text);
        }
        historyText = ` It was taken away from ${npub}, who had it ${since} and can now be paid by npub only.`;
        await notify(tx, RECIPIENT_CHANGES_CHANNEL, [name]);
        break;
      case 'free':
        if (action === 'release') {
          return report(true, 'already_free', 'is already free.');
        }
        break;
      case 'reserved':
        if (action === 'reserve') {
          const reason = status === 'reserved' ? since : listText;
          return report(true, 'already_reserved', `is already reserved (${reason}).`);
        }
        if (status !== 'reserved') {
          const text = `stays reserved (${listText}): no command can release it.`;
          return report(false, 'on_reserved_list', text);
        }
        historyText = ` It was reserved ${since}.`;
        break;
      case 'in_grace':
        historyText = ` ${npub} had it before and could have reclaimed it until ${formatTime(graceEndsAtMs ?? 0)}.`;
    }
    // Each statement changes the name only if the name still has the status that was read.
    let isChanged = availability === 'free';
    if (!isChanged) {
      isChanged = await (availability === 'in_use'
        ? revokeUsername(tx, name, nowMs)
        : freeUsername(tx, name));
    }
    if (!isChanged || (action === 'reserve' && !(await reserveUsername(tx, name, nowMs)))) {
      return report(false, 'conflict', 'changed at the same time; nothing was done. Try again.');
    }
    if (action === 'reserve') {
      return report(true, 'reserved', `is now reserved.${historyText}`);
    }
    const result = listText ? `stays reserved: ${listText}.` : 'is now free.';
    return report(true, 'released', `${result}${historyText}`);
  });
}

/** Returns the npub of the owner, the former owner or the buyer. */
function npubOf({ pubkey }: UsernameRecord): string {
  return pubkey ? nip19.npubEncode(pubkey) : '';
}
