import { schnorr } from '@noble/curves/secp256k1.js';
import * as nip19 from 'nostr-tools/nip19';

export const MIN_USERNAME_LENGTH = 3;
export const MAX_USERNAME_LENGTH = 64;

export type RecipientAddress =
  | { kind: 'pubkey'; pubkey: string }
  | { kind: 'name'; name: string }
  | { kind: 'invalid_npub' }
  | { kind: 'invalid_name' };

/**
 * Parses the part of a Lightning address before the `@` (LUD-16), in upper or lower case, with or without a tag. Rejects
 * an npub whose key is not on the curve: the key cannot sign, so a payment to it would be lost.
 */
export function parseRecipientAddress(localPart: string): RecipientAddress {
  const { account } = splitAddressTag(localPart);
  const text = account.toLowerCase();
  if (text.startsWith('npub1')) {
    const pubkey = decodeNpub(text);
    return pubkey === null ? { kind: 'invalid_npub' } : { kind: 'pubkey', pubkey };
  }
  const name = parseUsername(account);
  return name === null ? { kind: 'invalid_name' } : { kind: 'name', name };
}

const TAGGED_LOCAL_PART = /^([^+]*)\+([a-z0-9._+-]{1,64})$/i;

/** Splits `alice+shop` into account and tag (LUD-16). An invalid tag stays in the account, which then does not exist. */
export function splitAddressTag(localPart: string): { account: string; tag: string | null } {
  const [, account = localPart, tag = null] = TAGGED_LOCAL_PART.exec(localPart) ?? [];
  return { account, tag: tag === null ? null : tag.toLowerCase() };
}

/** Returns what may stand before the `@` in the addresses of a user. */
export function listLocalParts(user: { pubkey: string; name: string | null }): string[] {
  const npub = nip19.npubEncode(user.pubkey);
  return user.name === null ? [npub] : [npub, user.name];
}

/** Returns whether a hex key is an x coordinate on secp256k1 (BIP 340 `lift_x`). */
export function isOnCurve(pubkey: string): boolean {
  try {
    schnorr.utils.lift_x(BigInt(`0x${pubkey}`));
    return true;
  } catch {
    return false;
  }
}

/** Returns the compressed key that locks quotes (NUT-20). The mint ignores the parity byte. */
export function toQuoteLockPubkey(pubkey: string): string {
  return `02${pubkey}`;
}

function decodeNpub(text: string): string | null {
  try {
    const decoded = nip19.decode(text);
    return decoded.type === 'npub' && isOnCurve(decoded.data) ? decoded.data : null;
  } catch {
    return null;
  }
}

const USERNAME_PATTERN = new RegExp(
  `^[a-z0-9]{${MIN_USERNAME_LENGTH},${MAX_USERNAME_LENGTH}}$`,
  'i',
);

/** A secret key (NIP-19). If a user pastes it into the wrong field, it must not become a public username. */
const NSEC_PATTERN = /^nsec1[a-z0-9]{58}$/;

/** Returns the name in lower case; null if it is not allowed. */
export function parseUsername(text: string): string | null {
  // Tested before `toLowerCase`, which turns some other characters into ASCII letters, such as the Kelvin sign into k.
  if (!USERNAME_PATTERN.test(text)) {
    return null;
  }
  const name = text.toLowerCase();
  return name.startsWith('npub1') || NSEC_PATTERN.test(name) ? null : name;
}

/** Names that could deceive payers, or that this service may need. All are valid usernames. */
export const BUILT_IN_RESERVED_USERNAMES: readonly string[] = [
  // Common mailbox names (RFC 2142).
  'info marketing sales support abuse noc security postmaster hostmaster usenet news webmaster',
  'www uucp ftp',
  // Names that prove control of the domain to a certificate authority (CA/Browser Forum, 3.2.2.4.4).
  'admin administrator administration sysadmin ssladmin root superuser',
  // Names of staff, departments and parts of a service.
  'operator moderator mod staff team owner official system daemon service services status report',
  'help helpdesk contact feedback press media legal privacy terms dmca copyright compliance trust',
  'safety noreply donotreply mailerdaemon mail email mailer bounce bounces smtp imap pop3',
  'billing invoice invoices payment payments pay payout payouts refund refunds finance accounting',
  'accounts account collect donate donation donations checkout escrow bank exchange swap faucet cashier',
  'nutpost wallet wallets mint mints treasury reserve lightning bitcoin btc sat sats lnurl lnurlp',
  'lnurlw lnd cln bolt11 bolt12 cashu ecash token tokens nostr nip05 npub nsec relay relays zap zaps',
  'zapper nutzap nutzaps login logout signin signup register password verify settings auth oauth',
  // Names of hosts, paths and files, and names that look like no name.
  'api app apps web website server host localhost localdomain dns ns1 ns2 ntp cdn static assets',
  'proxy gateway autoconfig autodiscover wpad isatap wellknown docs health ready metrics home index',
  'robots sitemap favicon manifest user users anonymous nobody everyone somebody unknown null',
  'undefined none void default',
].flatMap((names) => names.split(' '));

/** Whether a name looks like an npub, or is a key in hex. If such a name already has an owner, it still resolves. */
export function looksLikeKey(name: string): boolean {
  return /^npub[il]|^[0-9a-f]{64}$/.test(name);
}

export function isReservedUsername(name: string, operatorNames: readonly string[]): boolean {
  return (
    BUILT_IN_RESERVED_USERNAMES.includes(name) || looksLikeKey(name) || operatorNames.includes(name)
  );
}
