import * as nip19 from 'nostr-tools/nip19';
import type { StoredUsername } from '../domain/username-claim.ts';
import type { RecipientBlock } from '../store/block-store.ts';
import type {
  BlockChange,
  KnownKey,
  NameNotInUse,
  ShownUser,
  UserOverview,
} from '../usecases/manage-users.ts';
import { iso, keyInWords, lines, when } from './plain-text.ts';

const DEFAULT = '(the default of this service)';

/** What is kept of a user, for a person: lines of text, each ended. Times in UTC. */
export function shownUserToText(shown: ShownUser): string {
  switch (shown.outcome) {
    case 'user':
      return overviewToText(shown.user, shown.nowMs);
    case 'unknown_key':
      return lines(
        `Nothing is kept of ${nip19.npubEncode(shown.pubkey)}: it can be paid by its npub, and was not yet.`,
      );
    case 'name_not_in_use':
      return notInUseToText(shown);
  }
}

/** What became of blocking or unblocking, for a person: a line of text, ended. */
export function blockChangeToText(change: BlockChange): string {
  switch (change.outcome) {
    case 'blocked':
      return lines(`${whose(change)} is blocked: payers are told "Recipient unavailable."`);
    case 'already_blocked':
      return lines(`${whose(change)} was blocked already, ${blockInWords(change.block)}.`);
    case 'unblocked':
      return lines(
        `${whose(change)} can be paid again; they were blocked ${blockInWords(change.block)}.`,
      );
    case 'not_blocked':
      return lines(`${whose(change)} was not blocked: nothing was changed.`);
    case 'name_not_in_use':
      return notInUseToText(change);
  }
}

function overviewToText(user: UserOverview, nowMs: number): string {
  const facts: [name: string, value: string][] = [
    ['Key', user.pubkey],
    ...user.usernames.map((each) => usernameInWords(each, nowMs)),
    ['Mint', user.mintUrl ?? DEFAULT],
    ['Locking', lockingInWords(user.lockQuotes)],
    ['Payments', paymentsInWords(user, nowMs)],
    ['Open quotes', openQuotesInWords(user)],
    ['Purchases', purchasesInWords(user.purchases)],
    ['Blocked', user.block === null ? 'no' : `yes, ${blockInWords(user.block)}`],
  ];
  return lines(
    keyInWords(user.pubkey, user.name),
    ...facts.map(([name, value]) => `  ${name.padEnd(11)}  ${value}`),
  );
}

function usernameInWords(
  { name, status, sinceMs, untilMs, purchase }: StoredUsername,
  nowMs: number,
): [name: string, value: string] {
  switch (status) {
    case 'in_use':
      return ['Name', `${name}, since ${when(sinceMs, nowMs)}`];
    case 'pending':
      return ['Buying', `${name}, since ${when(sinceMs, nowMs)}; purchase ${purchase}`];
    case 'released': {
      const untilInWords = when(untilMs ?? sinceMs, nowMs);
      return [
        'Old name',
        (untilMs ?? sinceMs) > nowMs
          ? `${name}, which nobody else can have until ${untilInWords}`
          : `${name}, which anybody can have since ${untilInWords}`,
      ];
    }
    case 'reserved':
      // For the operator, not for a key.
      return ['Reserved', name];
  }
}

function lockingInWords(lockQuotes: boolean | null): string {
  if (lockQuotes === null) {
    return DEFAULT;
  }
  return lockQuotes ? 'on' : 'off';
}

function paymentsInWords({ paymentCount, lastPaidAtMs }: UserOverview, nowMs: number): string {
  const last = lastPaidAtMs === null ? '' : `, the last at ${when(lastPaidAtMs, nowMs)}`;
  return `${paymentCount.toLocaleString('en')}${last}`;
}

function openQuotesInWords({ openQuoteCount, hasMoreOpenQuotes }: UserOverview): string {
  const number = openQuoteCount.toLocaleString('en');
  return `${hasMoreOpenQuotes ? `more than ${number}` : number} (not paid yet)`;
}

function purchasesInWords({ open, done, undone }: UserOverview['purchases']): string {
  return [
    done.toLocaleString('en'),
    ...(open === 0 ? [] : [`${open.toLocaleString('en')} under way`]),
    ...(undone === 0 ? [] : [`${undone.toLocaleString('en')} that came to nothing`]),
  ].join(', ');
}

function blockInWords({ sinceMs, reason }: RecipientBlock): string {
  return `since ${iso(sinceMs)}${reason === null ? ', for no reason that was given' : `: ${reason}`}`;
}

function whose({ key }: { key: KnownKey }): string {
  return keyInWords(key.pubkey, key.name);
}

function notInUseToText({ name, stored }: NameNotInUse): string {
  return lines(`Nobody has the name ${name}${laterOrBefore(stored)}.`);
}

/** Somebody who is likely meant; a command that changes something wants them said by key. */
function laterOrBefore(stored: StoredUsername | null): string {
  if (stored?.pubkey == null) {
    return '';
  }
  const npub = nip19.npubEncode(stored.pubkey);
  const relation = stored.status === 'pending' ? 'is buying it' : 'had it before';
  return `; ${npub} ${relation}: give that npub if you mean them`;
}
