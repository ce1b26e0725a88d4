/** The bounds that more than one module speaks of, each with its reason. */

/** Longest mint quote id that is taken from a mint: opaque text, ids in use have 36 to 43 characters. */
export const MAX_QUOTE_ID_LENGTH = 256;

/** Rows on one page of the quote list, whatever was asked for (spec.md section 8). */
export const MAX_PAGE_SIZE = 50;

/** Most that a client may ask for as a page size without being wrong (spec.md section 8). */
export const MAX_REQUESTED_PAGE_SIZE = 1000;

/** An authorized request's JWT lives this long (spec.md section 8). */
export const JWT_LIFETIME_SECONDS = 30 * 60;

/** How far a NIP-98 event's `created_at` may be from our clock, either way (NIP-98). */
export const NIP98_TOLERANCE_SECONDS = 60;

/** A socket that has not authenticated by then is closed (spec.md section 6). */
export const SOCKET_AUTH_DEADLINE_MS = 15_000;

/** Shortest and longest purchasable name (spec.md section 4.6; the upper end is ours). */
export const MIN_USERNAME_LENGTH = 3;
export const MAX_USERNAME_LENGTH = 64;

/**
 * How much strangers may ask of one process; 0 anywhere: as much as they like. An address is an IPv4
 * address or the /64 of an IPv6 one ({@link clientNetwork}).
 */
export interface InboundLimits {
  /** Requests of any kind a minute, by address; and by key, where a request is signed. */
  requests: number;
  /** Requests for an invoice a minute, by address. */
  invoices: number;
  /** Changes of settings a minute, by address and by key: a mint is asked for each. */
  changes: number;
  /** Requests to buy a username a minute, by address and by key: a mint swaps for each. */
  purchases: number;
  /** Unpaid invoices of the last hour, in all processes: of a recipient. */
  openInvoicesPerRecipient: number;
  /** The same of the address that asked for them. */
  openInvoicesPerAddress: number;
  /** The same of one recipient that one address asked for. */
  openInvoicesPerPair: number;
  /** Quote sockets at a time: in all, by address and by key. */
  sockets: number;
  socketsPerAddress: number;
  socketsPerKey: number;
  /** Messages a second from one socket. */
  socketMessages: number;
}
