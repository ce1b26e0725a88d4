/** Bounds that several modules share, each with its reason. */

/** The longest quote id that a mint may return: opaque text, in practice 36 to 43 characters. */
export const MAX_QUOTE_ID_LENGTH = 256;

/** Rows on one page of the quote list (spec.md section 8). */
export const MAX_PAGE_SIZE = 50;

/** The largest valid page size in a request (spec.md section 8). */
export const MAX_REQUESTED_PAGE_SIZE = 1000;

/** Lifetime of a JWT (spec.md section 8). */
export const JWT_LIFETIME_SECONDS = 30 * 60;

/** How far a NIP-98 event's `created_at` may be from our clock, either way (NIP-98). */
export const NIP98_TOLERANCE_SECONDS = 60;

/** A socket that has not authenticated by then is closed (spec.md section 6). */
export const SOCKET_AUTH_DEADLINE_MS = 15_000;

/** Shortest and longest purchasable name (spec.md section 4.6; the upper end is ours). */
export const MIN_USERNAME_LENGTH = 3;
export const MAX_USERNAME_LENGTH = 64;

/** What one process grants to clients; 0: no limit. An address is an IPv4 address or the /64 of an IPv6 one. */
export interface InboundLimits {
  /** Requests of any kind a minute, by address; and by key, where a request is signed. */
  requests: number;
  /** Requests for an invoice a minute, by address. */
  invoices: number;
  /** Changes of settings a minute, by address and by key: a mint is asked for each. */
  changes: number;
  /** Requests to buy a username a minute, by address and by key: a mint swaps for each. */
  purchases: number;
  /** Unpaid invoices of the last hour, in all processes. */
  openInvoicesPerRecipient: number;
  openInvoicesPerAddress: number;
  /** Of one recipient, requested by one address. */
  openInvoicesPerPair: number;
  /** Quote sockets at a time: in all, by address and by key. */
  sockets: number;
  socketsPerAddress: number;
  socketsPerKey: number;
  /** Messages a second from one socket. */
  socketMessages: number;
}
