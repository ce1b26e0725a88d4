/**
 * Names that somebody could be deceived with, or that belong to the house: nobody can have them. Each is
 * a possible username; shorter ones, or ones with a hyphen, need no reserving.
 */
export const BUILT_IN_RESERVED_NAMES: readonly string[] = [
  // Mailboxes with a common meaning (RFC 2142).
  ['info', 'marketing', 'sales', 'support', 'abuse', 'noc', 'security', 'postmaster'],
  ['hostmaster', 'usenet', 'news', 'webmaster', 'www', 'uucp', 'ftp'],
  // Whoever reads these may be given a certificate for the domain (CA/Browser Forum, 3.2.2.4.4), or
  // is believed to own it.
  ['admin', 'administrator', 'administration', 'sysadmin', 'ssladmin', 'root', 'superuser'],
  ['operator', 'moderator', 'mod', 'staff', 'team', 'owner', 'official', 'system', 'daemon'],
  // Mail that machines write.
  ['noreply', 'donotreply', 'mailerdaemon', 'mail', 'email', 'mailer', 'bounce', 'bounces'],
  // Whom people turn to.
  ['help', 'helpdesk', 'contact', 'feedback', 'press', 'media', 'legal', 'privacy', 'terms'],
  ['dmca', 'copyright', 'compliance', 'trust', 'safety', 'status', 'report', 'service', 'services'],
  // Whom people pay, or who pays them back.
  ['billing', 'invoice', 'invoices', 'payment', 'payments', 'pay', 'payout', 'payouts', 'refund'],
  ['refunds', 'finance', 'accounting', 'accounts', 'account', 'donate', 'donation', 'donations'],
  ['checkout', 'escrow', 'bank', 'exchange', 'swap', 'faucet', 'cashier'],
  // What this service does, and with what.
  ['nutpost', 'wallet', 'wallets', 'mint', 'mints', 'treasury', 'reserve', 'lightning', 'bitcoin'],
  ['btc', 'sat', 'sats', 'lnurl', 'lnurlp', 'lnurlw', 'lnd', 'cln', 'bolt11', 'bolt12'],
  ['cashu', 'ecash', 'token', 'tokens', 'nostr', 'nip05', 'npub', 'nsec', 'relay', 'relays'],
  ['zap', 'zaps', 'zapper', 'nutzap', 'nutzaps'],
  // Names of hosts, and what programs look for.
  ['api', 'app', 'apps', 'web', 'website', 'server', 'host', 'localhost', 'localdomain', 'smtp'],
  ['imap', 'pop3', 'dns', 'ns1', 'ns2', 'ntp', 'cdn', 'static', 'assets', 'proxy', 'gateway'],
  ['autoconfig', 'autodiscover', 'wpad', 'isatap', 'wellknown', 'docs'],
  ['login', 'logout', 'signin', 'signup', 'register', 'password'],
  ['verify', 'settings', 'auth', 'oauth', 'user', 'users', 'anonymous'],
  ['nobody', 'everyone', 'somebody', 'unknown', 'null', 'undefined', 'none', 'void', 'default'],
].flat();

const BUILT_IN = new Set(BUILT_IN_RESERVED_NAMES);

/**
 * Whether nobody can have a name, whatever they pay (spec.md section 4.6).
 *
 * @param name in lower case
 * @param operatorNames the operator's own, in lower case
 */
export function isReservedUsername(name: string, operatorNames: readonly string[]): boolean {
  return BUILT_IN.has(name) || operatorNames.includes(name);
}
