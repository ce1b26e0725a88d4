import * as nip19 from 'nostr-tools/nip19';
import type { NameRecord, ReservedList } from '../domain/name-standing.ts';
import type { NameChange, ShownName } from '../usecases/manage-names.ts';
import { iso, lines, when } from './plain-text.ts';

const ON_LIST: Readonly<Record<ReservedList, string>> = {
  built_in: 'it is on the list that nutpost brings along',
  setting: 'it is in USERNAME_RESERVED',
};

/** How a name stands, for a person: lines of text, each ended. Times in UTC. */
export function shownNameToText({ record, nowMs }: ShownName): string {
  return lines(
    `${record.name} ${standingInWords(record)}.`,
    ...factsOf(record, nowMs).map(([name, value]) => `  ${name.padEnd(12)}  ${value}`),
  );
}

/** What became of a change, for a person: a line of text, ended. */
export function nameChangeToText(change: NameChange, action: 'reserve' | 'release'): string {
  const { outcome, before } = change;
  const { name, list } = before;
  switch (outcome) {
    case 'reserved':
      return lines(`${name} is reserved now: nobody can have it.${loss(before)}`);
    case 'released':
      return list === null
        ? lines(`${name} is free now.${loss(before)}`)
        : lines(`${name} stays reserved, for ${ON_LIST[list]}.${loss(before)}`);
    case 'already_reserved':
      return lines(`${name} was reserved already${reservedBy(before)}: nothing was changed.`);
    case 'already_free':
      return lines(`${name} was free already: nothing was changed.`);
    case 'in_use':
      return lines(
        `${name} is in use${ownership(before)}: nothing was changed.` +
          ` \`nutpost name ${action} ${name} --in-use\` takes it away from its owner.`,
      );
    case 'pending':
      return lines(
        `${name} is being bought${ownership(before)}: nothing was changed. A purchase comes to its end` +
          ' by itself: try again then.',
      );
    case 'on_list':
      return lines(`${name} stays reserved${reservedBy(before)}: no command can release it.`);
    case 'overtaken':
      return lines(`${name} was changed by somebody else at this moment: look again.`);
  }
}

function standingInWords({ standing, list }: NameRecord): string {
  switch (standing) {
    case 'free':
      return 'is free';
    case 'in_use':
      return 'is in use';
    case 'pending':
      return 'is being bought';
    case 'in_grace':
      return 'is in its grace: only its former owner can have it, free of charge';
    case 'reserved':
      return list === null
        ? 'is reserved: nobody can have it'
        : `is reserved: nobody can have it, for ${ON_LIST[list]}`;
  }
}

function factsOf(
  { standing, stored, list }: NameRecord,
  nowMs: number,
): [name: string, value: string][] {
  if (stored === null) {
    return [];
  }
  const { pubkey, sinceMs, untilMs, purchase } = stored;
  const isFormer = stored.status === 'released';
  const who = {
    free: 'Former owner',
    in_use: 'Owner',
    pending: 'Buyer',
    in_grace: 'Former owner',
    reserved: 'Former owner',
  }[standing];
  return [
    ...(pubkey === null
      ? []
      : [
          [who, nip19.npubEncode(pubkey)] satisfies [string, string],
          ['Key', pubkey] satisfies [string, string],
        ]),
    [isFormer ? 'Given up' : 'Since', when(sinceMs, nowMs)],
    ...(untilMs === null ? [] : [['Kept until', when(untilMs, nowMs)] satisfies [string, string]]),
    ...(purchase === null ? [] : [['Purchase', purchase] satisfies [string, string]]),
    ...(list === null || standing === 'reserved'
      ? []
      : [['Once free', `nobody can have it, for ${ON_LIST[list]}`] satisfies [string, string]]),
  ];
}

/** Who lost what by a change. */
function loss({ standing, stored }: NameRecord): string {
  if (stored === null || standing === 'free') {
    return '';
  }
  const npub = stored.pubkey === null ? '' : nip19.npubEncode(stored.pubkey);
  switch (standing) {
    case 'in_use':
      return ` It was taken away from ${npub}, who had it since ${iso(stored.sinceMs)} and is paid by npub alone now.`;
    case 'in_grace':
      return ` ${npub}, who had it before, could have taken it back until ${iso(stored.untilMs ?? stored.sinceMs)}.`;
    case 'reserved':
      return ` A command had reserved it since ${iso(stored.sinceMs)}.`;
    case 'pending':
      return '';
  }
}

function ownership({ stored }: NameRecord): string {
  return stored?.pubkey == null
    ? ''
    : ` by ${nip19.npubEncode(stored.pubkey)} since ${iso(stored.sinceMs)}`;
}

function reservedBy({ stored, list }: NameRecord): string {
  if (stored?.status === 'reserved') {
    return ` (since ${iso(stored.sinceMs)})`;
  }
  return list === null ? '' : ` (${ON_LIST[list]})`;
}
