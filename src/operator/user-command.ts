import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import { parseRecipient, withoutHost } from '../recipients/address.ts';
import type { RecipientBlock } from '../recipients/user-store.ts';
import type { StoredUsername } from '../usernames/username-claim.ts';
import { answer, type OperatorCommand, onlyOperand, UsageError } from './command.ts';
import { fields, iso, keyToJson, keyToText, lines, number, when } from './format.ts';
import {
  type BlockChange,
  blockUser,
  type NameNotInUse,
  type ShownUser,
  showUser,
  type UserOverview,
  type UserSubject,
  unblockUser,
} from './manage-users.ts';

/** A sentence or two. */
const MAX_REASON_LENGTH = 500;

/** Such as the end of a line: a reason is shown in one. */
const CONTROL_CHARACTER = /\p{Cc}/u;

const HEX_KEY = /^[0-9a-f]{64}$/i;

/** `nutpost user`: shows, blocks and unblocks users. */
export const user: OperatorCommand = {
  name: 'user',
  usage: `  user show <npub | key | name>
           shows what is stored about a user
  user block <npub | key | name> [--reason <text>]
           keeps payers from a user: no new invoices; earlier ones can still be paid
  user unblock <npub | key | name>
           removes the block; --json for programs, as with the others
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: { json: { type: 'boolean', default: false }, reason: { type: 'string' } },
      allowPositionals: true,
    });
    const [action, ...operands] = positionals;
    if (action !== 'show' && action !== 'block' && action !== 'unblock') {
      throw new UsageError('Give show, block or unblock, and one npub, key or name.');
    }
    if (action !== 'block' && values.reason !== undefined) {
      throw new UsageError('A --reason is for blocking.');
    }
    const subject = readSubject(operands);
    const reason = values.reason === undefined ? null : readReason(values.reason);
    return async (parts) => {
      if (action === 'show') {
        const shown = await showUser(parts, subject);
        return answer(
          shown.outcome === 'user',
          values.json ? userToJson(shown) : userToText(shown),
        );
      }
      const change = await (action === 'block'
        ? blockUser(parts, subject, reason)
        : unblockUser(parts, subject));
      return answer(
        change.outcome !== 'name_not_in_use',
        values.json ? changeToJson(change) : changeToText(change),
      );
    };
  },
};

/** Reads an npub, a key in hex, a name or a Lightning address. 64 hex characters are always a key. */
function readSubject(operands: string[]): UserSubject {
  const text = withoutHost(onlyOperand(operands, 'Give one npub, key (hex) or name.'));
  const address = HEX_KEY.test(text) ? nip19.npubEncode(text.toLowerCase()) : text;
  const subject = parseRecipient(address);
  switch (subject.kind) {
    case 'invalid_npub':
      throw new UsageError('This is not an npub or a key: it may be cut off or mistyped.');
    case 'unknown':
      throw new UsageError('This is not an npub or a key (hex), and cannot be a name.');
    case 'pubkey':
    case 'name':
      return subject;
  }
}

function readReason(text: string): string {
  const reason = text.trim();
  if (reason === '' || reason.length > MAX_REASON_LENGTH || CONTROL_CHARACTER.test(reason)) {
    throw new UsageError(`Give a reason in one line of at most ${MAX_REASON_LENGTH} characters.`);
  }
  return reason;
}

function userToJson(shown: ShownUser): object {
  switch (shown.outcome) {
    case 'user': {
      const { pubkey, name, usernames, ...overview } = shown.user;
      const names = usernames.map(({ pubkey: _, ...username }) => username);
      const { outcome, nowMs } = shown;
      return { outcome, nowMs, user: keyToJson(pubkey, name), names, ...overview };
    }
    case 'unknown_key':
      return { outcome: shown.outcome, user: keyToJson(shown.pubkey, null) };
    case 'name_not_in_use':
      return notInUseToJson(shown);
  }
}

function changeToJson(change: BlockChange): object {
  if (change.outcome === 'name_not_in_use') {
    return notInUseToJson(change);
  }
  const { outcome, nowMs, key, block } = change;
  return { outcome, nowMs, user: keyToJson(key.pubkey, key.name), block };
}

function notInUseToJson({ outcome, name, stored }: NameNotInUse): object {
  return stored?.pubkey == null
    ? { outcome, name }
    : { outcome, name, status: stored.status, key: keyToJson(stored.pubkey, null) };
}

const DEFAULT = '(the default of this service)';

function userToText(shown: ShownUser): string {
  switch (shown.outcome) {
    case 'user':
      return overviewToText(shown.user, shown.nowMs);
    case 'unknown_key':
      return lines(
        `Nothing is stored about ${nip19.npubEncode(shown.pubkey)}. It can be paid all the same.`,
      );
    case 'name_not_in_use':
      return notInUseToText(shown);
  }
}

function overviewToText(user: UserOverview, nowMs: number): string {
  const { lockQuotes, lastPaidAtMs, purchases } = user;
  const openQuotes = `${user.hasMoreOpenQuotes ? 'more than ' : ''}${number(user.openQuoteCount)}`;
  return lines(
    keyToText(user.pubkey, user.name),
    ...fields(
      ['Key', user.pubkey],
      ...user.usernames.map((username) => usernameField(username, nowMs)),
      ['Mint', user.mintUrl ?? DEFAULT],
      ['Locking', lockQuotes === null ? DEFAULT : onOrOff(lockQuotes)],
      [
        'Payments',
        `${number(user.paymentCount)}${lastPaidAtMs === null ? '' : `, the last at ${when(lastPaidAtMs, nowMs)}`}`,
      ],
      ['Open quotes', `${openQuotes} (not paid yet)`],
      ['Purchases', purchasesToText(purchases)],
      ['Blocked', user.block === null ? 'no' : `yes, ${blockToText(user.block)}`],
    ),
  );
}

function onOrOff(isOn: boolean): string {
  return isOn ? 'on' : 'off';
}

function usernameField(
  { name, status, sinceMs, untilMs, purchase }: StoredUsername,
  nowMs: number,
): [label: string, value: string] {
  const since = when(sinceMs, nowMs);
  switch (status) {
    case 'in_use':
      return ['Name', `${name}, since ${since}`];
    case 'pending':
      return ['Buying', `${name}, since ${since}; purchase ${purchase}`];
    case 'released': {
      const until = untilMs ?? sinceMs;
      const whose = until > nowMs ? 'reserved for this user until' : 'free since';
      return ['Old name', `${name}, ${whose} ${when(until, nowMs)}`];
    }
    case 'reserved':
      return ['Reserved', name];
  }
}

function purchasesToText({ open, done, undone }: UserOverview['purchases']): string {
  return [
    number(done),
    ...(open === 0 ? [] : [`${number(open)} in progress`]),
    ...(undone === 0 ? [] : [`${number(undone)} failed`]),
  ].join(', ');
}

function changeToText(change: BlockChange): string {
  if (change.outcome === 'name_not_in_use') {
    return notInUseToText(change);
  }
  const key = keyToText(change.key.pubkey, change.key.name);
  switch (change.outcome) {
    case 'blocked':
      return lines(`${key} is blocked: payers get the error "Recipient unavailable."`);
    case 'already_blocked':
      return lines(`${key} is already blocked, ${blockToText(change.block)}.`);
    case 'unblocked':
      return lines(`${key} can be paid again; it was blocked ${blockToText(change.block)}.`);
    case 'not_blocked':
      return lines(`${key} is not blocked.`);
  }
}

function blockToText({ sinceMs, reason }: RecipientBlock): string {
  return `since ${iso(sinceMs)}${reason === null ? ', without a reason' : `: ${reason}`}`;
}

/** Names the key that is likely meant; a command that changes something must be given the key itself. */
function notInUseToText({ name, stored }: NameNotInUse): string {
  if (stored?.pubkey == null) {
    return lines(`No user has the name ${name}.`);
  }
  const relation = stored.status === 'pending' ? 'is buying it' : 'had it before';
  return lines(
    `No user has the name ${name}. ${nip19.npubEncode(stored.pubkey)} ${relation}: give the npub if you mean that user.`,
  );
}
