import type { UsernameStatus } from '../database/schema.ts';

/** A name that has a row: it is in use, pending, released or reserved. */
export interface StoredUsername {
  /** In lower case. */
  name: string;
  /** Hex: the owner, the buyer or the previous owner; null if the operator reserved the name. */
  pubkey: string | null;
  status: UsernameStatus;
  /** When the name got its status; for a name in use, when its owner requested it. */
  statusSinceMs: number;
  /** The end of the grace period of a released name; null otherwise. */
  reservedUntilMs: number | null;
  /** The purchase that holds a pending name; null otherwise. */
  purchaseId: string | null;
}

/** The state of a name, whichever key requests it. */
export type UsernameAvailability = 'free' | 'in_use' | 'pending' | 'in_grace' | 'reserved';

export function resolveAvailability(
  stored: StoredUsername | null,
  nowMs: number,
): UsernameAvailability {
  if (stored === null) {
    return 'free';
  }
  if (stored.status !== 'released') {
    return stored.status;
  }
  return stored.reservedUntilMs !== null && stored.reservedUntilMs > nowMs ? 'in_grace' : 'free';
}

/** Whether one key can have a name. */
export type ClaimDecision =
  | 'owned'
  /** The key's previous name, still in its grace period: the key gets it back free of charge. */
  | 'reclaimable'
  /** The key's own purchase of the name is in progress. */
  | 'buying'
  | 'taken'
  | 'reserved'
  | 'free';

export function decideClaim(
  stored: StoredUsername | null,
  pubkey: string,
  nowMs: number,
): ClaimDecision {
  const isSameKey = stored?.pubkey === pubkey;
  const availability = resolveAvailability(stored, nowMs);
  switch (availability) {
    case 'free':
    case 'reserved':
      return availability;
    case 'in_use':
      return isSameKey ? 'owned' : 'taken';
    case 'pending':
      return isSameKey ? 'buying' : 'taken';
    case 'in_grace':
      return isSameKey ? 'reclaimable' : 'taken';
  }
}

/** Names that could deceive payers, or that this service may need. All are valid usernames. */
export const BUILT_IN_RESERVED_USERNAMES: readonly string[] = [
  // Common mailbox names (RFC 2142).
  ['info', 'marketing', 'sales', 'support', 'abuse', 'noc', 'security', 'postmaster'],
  ['hostmaster', 'usenet', 'news', 'webmaster', 'www', 'uucp', 'ftp'],
  // Names that prove control of the domain to a certificate authority (CA/Browser Forum, 3.2.2.4.4), or imply it.
  ['admin', 'administrator', 'administration', 'sysadmin', 'ssladmin', 'root', 'superuser'],
  ['operator', 'moderator', 'mod', 'staff', 'team', 'owner', 'official', 'system', 'daemon'],
  // Automated mail.
  ['noreply', 'donotreply', 'mailerdaemon', 'mail', 'email', 'mailer', 'bounce', 'bounces'],
  // Support and legal contacts.
  ['help', 'helpdesk', 'contact', 'feedback', 'press', 'media', 'legal', 'privacy', 'terms'],
  ['dmca', 'copyright', 'compliance', 'trust', 'safety', 'status', 'report', 'service', 'services'],
  // Payments and refunds.
  ['billing', 'invoice', 'invoices', 'payment', 'payments', 'pay', 'payout', 'payouts', 'refund'],
  ['refunds', 'finance', 'accounting', 'accounts', 'account', 'donate', 'donation', 'donations'],
  ['checkout', 'escrow', 'bank', 'exchange', 'swap', 'faucet', 'cashier'],
  // This service and its technology.
  ['nutpost', 'wallet', 'wallets', 'mint', 'mints', 'treasury', 'reserve', 'lightning', 'bitcoin'],
  ['btc', 'sat', 'sats', 'lnurl', 'lnurlp', 'lnurlw', 'lnd', 'cln', 'bolt11', 'bolt12'],
  ['cashu', 'ecash', 'token', 'tokens', 'nostr', 'nip05', 'npub', 'nsec', 'relay', 'relays'],
  ['zap', 'zaps', 'zapper', 'nutzap', 'nutzaps'],
  // Host names, and names that programs look up.
  ['api', 'app', 'apps', 'web', 'website', 'server', 'host', 'localhost', 'localdomain', 'smtp'],
  ['imap', 'pop3', 'dns', 'ns1', 'ns2', 'ntp', 'cdn', 'static', 'assets', 'proxy', 'gateway'],
  ['autoconfig', 'autodiscover', 'wpad', 'isatap', 'wellknown', 'docs'],
  ['login', 'logout', 'signin', 'signup', 'register', 'password'],
  ['verify', 'settings', 'auth', 'oauth', 'user', 'users', 'anonymous'],
  ['nobody', 'everyone', 'somebody', 'unknown', 'null', 'undefined', 'none', 'void', 'default'],
].flat();

/**
 * Returns whether a name is not for sale (spec.md section 4.6). All names are in lower case.
 *
 * @param operatorReservedNames reserved besides the built-in ones
 */
export function isReservedUsername(
  name: string,
  operatorReservedNames: readonly string[],
): boolean {
  return BUILT_IN_RESERVED_USERNAMES.includes(name) || operatorReservedNames.includes(name);
}
