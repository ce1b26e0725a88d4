import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from '../recipients/address.ts';
import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import { parseUsername } from '../recipients/address.ts';
import { answer, type OperatorCommand, onlyOperand, UsageError } from './command.ts';
import { fields, iso, keyToJson, lines, when } from './format.ts';
import {
  changeName,
  type NameChange,
  type NameRecord,
  type ReservedList,
  showName,
} from './manage-names.ts';

/** `nutpost name`: shows, reserves and releases names. */
export const name: OperatorCommand = {
  name: 'name',
  usage: `  name show <name>
           shows who has a name, or whether it is free
  name reserve <name> [--in-use]
           keeps a name from everybody; --in-use takes it away from its owner
  name release <name> [--in-use]
           frees a name; --json for programs, as with the others
`,
  read: (args) => {
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
      throw new UsageError('--in-use is for reserving and releasing.');
    }
    const wanted = readName(operands);
    return async (parts) => {
      if (action === 'show') {
        const { nowMs, record } = await showName(parts, wanted);
        return values.json
          ? answer(true, { outcome: 'name', nowMs, ...recordToJson(record) })
          : answer(true, recordToText(record, nowMs));
      }
      const change = await changeName(parts, action, wanted, { inUse: values['in-use'] ?? false });
      const { outcome, nowMs, before } = change;
      return answer(
        DONE.has(outcome),
        values.json
          ? { outcome, nowMs, before: recordToJson(before) }
          : changeToText(change, action),
      );
    };
  },
};

const DONE: ReadonlySet<NameChange['outcome']> = new Set([
  'reserved',
  'released',
  'already_reserved',
  'already_free',
]);

function readName(operands: string[]): string {
  const wanted = parseUsername(onlyOperand(operands, 'Give one name.'));
  if (wanted === null) {
    throw new UsageError(
      `This cannot be a name: a name has ${MIN_USERNAME_LENGTH} to ${MAX_USERNAME_LENGTH} letters` +
        ' (a to z) and digits, and does not begin with npub1.',
    );
  }
  return wanted;
}

/** `key` is the owner, the former owner or the buyer. */
function recordToJson({ name, standing, stored, list }: NameRecord): object {
  const pubkey = stored?.pubkey ?? null;
  return {
    name,
    standing,
    list,
    key: pubkey === null ? null : keyToJson(pubkey, null),
    sinceMs: stored?.sinceMs,
    untilMs: stored?.untilMs,
    purchase: stored?.purchase,
  };
}

const ON_LIST: Readonly<Record<ReservedList, string>> = {
  built_in: 'it is on the built-in list',
  setting: 'it is in USERNAME_RESERVED',
};

const KEY_LABELS: Readonly<Record<NameRecord['standing'], string>> = {
  free: 'Former owner',
  in_use: 'Owner',
  pending: 'Buyer',
  in_grace: 'Former owner',
  reserved: 'Former owner',
};

function recordToText(record: NameRecord, nowMs: number): string {
  const { name, standing, stored, list } = record;
  const heading = `${name} ${standingToText(record)}.`;
  if (stored === null) {
    return lines(heading);
  }
  const { pubkey, status, sinceMs, untilMs, purchase } = stored;
  return lines(
    heading,
    ...fields(
      [KEY_LABELS[standing], pubkey === null ? null : nip19.npubEncode(pubkey)],
      ['Key', pubkey],
      [status === 'released' ? 'Given up' : 'Since', when(sinceMs, nowMs)],
      ['Kept until', untilMs === null ? null : when(untilMs, nowMs)],
      ['Purchase', purchase],
      [
        'Once free',
        list === null || standing === 'reserved' ? null : `nobody can have it: ${ON_LIST[list]}`,
      ],
    ),
  );
}

function standingToText({ standing, list }: NameRecord): string {
  switch (standing) {
    case 'free':
      return 'is free';
    case 'in_use':
      return 'is in use';
    case 'pending':
      return 'is being bought';
    case 'in_grace':
      return 'was released: only its former owner can have it, free of charge';
    case 'reserved':
      return `is reserved${list === null ? '' : `: ${ON_LIST[list]}`}`;
  }
}

function changeToText({ outcome, before }: NameChange, action: 'reserve' | 'release'): string {
  const { name, stored, list } = before;
  const listed = list === null ? '' : ` (${ON_LIST[list]})`;
  const by =
    stored?.pubkey == null
      ? ''
      : ` by ${nip19.npubEncode(stored.pubkey)} since ${iso(stored.sinceMs)}`;
  switch (outcome) {
    case 'reserved':
      return lines(`${name} is now reserved.${lossToText(before)}`);
    case 'released':
      return lines(
        list === null
          ? `${name} is now free.${lossToText(before)}`
          : `${name} stays reserved: ${ON_LIST[list]}.${lossToText(before)}`,
      );
    case 'already_reserved':
      return lines(
        `${name} is already reserved` +
          `${stored?.status === 'reserved' ? ` (since ${iso(stored.sinceMs)})` : listed}.`,
      );
    case 'already_free':
      return lines(`${name} is already free.`);
    case 'in_use':
      return lines(
        `${name} is in use${by}: nothing was changed.` +
          ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.`,
      );
    case 'pending':
      return lines(
        `${name} is being bought${by}: nothing was changed. Try again when the purchase has ended.`,
      );
    case 'on_list':
      return lines(`${name} stays reserved${listed}: no command can release it.`);
    case 'overtaken':
      return lines(`${name} was changed by someone else at the same time. Try again.`);
  }
}

/** What a key, or the operator, loses by a change. */
function lossToText({ standing, stored }: NameRecord): string {
  const npub = stored?.pubkey == null ? '' : nip19.npubEncode(stored.pubkey);
  const since = iso(stored?.sinceMs ?? 0);
  switch (standing) {
    case 'in_use':
      return ` It was taken away from ${npub}, who had it since ${since} and can be paid by npub only.`;
    case 'in_grace':
      return ` ${npub} had it before, and could have taken it back until ${iso(stored?.untilMs ?? 0)}.`;
    case 'reserved':
      return ` It had been reserved since ${since}.`;
    case 'free':
    case 'pending':
      return '';
  }
}
