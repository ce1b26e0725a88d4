import type { StoredUsername } from '../domain/username-claim.ts';
import type { RecipientBlock } from '../store/block-store.ts';
import type {
  BlockChange,
  NameNotInUse,
  ShownUser,
  UserOverview,
} from '../usecases/manage-users.ts';
import { keyToJson } from './key-json.ts';
import { iso } from './plain-text.ts';

/** What is kept of a user, for programs: times in ISO 8601 (UTC), absent rather than null. */
export function shownUserToJson(shown: ShownUser): object {
  switch (shown.outcome) {
    case 'user':
      return { outcome: shown.outcome, asOf: iso(shown.nowMs), ...overviewToJson(shown.user) };
    case 'unknown_key':
      return { outcome: shown.outcome, user: keyToJson(shown.pubkey, null) };
    case 'name_not_in_use':
      return notInUseToJson(shown);
  }
}

/** What became of blocking or unblocking, for programs. */
export function blockChangeToJson(change: BlockChange): object {
  if (change.outcome === 'name_not_in_use') {
    return notInUseToJson(change);
  }
  return {
    outcome: change.outcome,
    asOf: iso(change.nowMs),
    user: keyToJson(change.key.pubkey, change.key.name),
    ...('block' in change ? { block: blockToJson(change.block) } : {}),
  };
}

function overviewToJson(user: UserOverview): object {
  return {
    user: keyToJson(user.pubkey, user.name),
    names: user.usernames.map(usernameToJson),
    ...(user.mintUrl === null ? {} : { mintUrl: user.mintUrl }),
    ...(user.lockQuotes === null ? {} : { lockQuotes: user.lockQuotes }),
    paymentCount: user.paymentCount,
    ...(user.lastPaidAtMs === null ? {} : { lastPaidAt: iso(user.lastPaidAtMs) }),
    openQuoteCount: user.openQuoteCount,
    hasMoreOpenQuotes: user.hasMoreOpenQuotes,
    purchases: user.purchases,
    ...(user.block === null ? {} : { block: blockToJson(user.block) }),
  };
}

function usernameToJson({ name, status, sinceMs, untilMs, purchase }: StoredUsername): object {
  return {
    name,
    status,
    since: iso(sinceMs),
    ...(untilMs === null ? {} : { until: iso(untilMs) }),
    ...(purchase === null ? {} : { purchase }),
  };
}

function blockToJson({ sinceMs, reason }: RecipientBlock): object {
  return { since: iso(sinceMs), ...(reason === null ? {} : { reason }) };
}

function notInUseToJson({ outcome, name, stored }: NameNotInUse): object {
  return {
    outcome,
    name,
    ...(stored?.pubkey == null
      ? {}
      : { status: stored.status, key: keyToJson(stored.pubkey, null) }),
  };
}
