// Bounds that operators do not set. server.ts has those of Node's HTTP server and their reasons.

/** At shutdown, the connections of clients are closed after this time. */
export const CLIENT_DEADLINE_MS = 4_000;

/** Unread responses, in UTF-16 code units. Room for about 90 of the longest lists of quotes. */
export const MAX_UNREAD_LENGTH = 64 * 1024 * 1024;

/** Shorter responses fit into the buffers of the operating system, or take little memory. */
export const MIN_COUNTED_LENGTH = 16 * 1024;

/** Wallets send about 1 KB. Parsing very long credentials would delay other requests. */
export const MAX_CREDENTIAL_LENGTH = 8 * 1024;

/** Requests per minute and address (with authentication, also per public key) to routes that cost more than others. */
export const ROUTE_LIMITS = {
  /** A response has up to half a megabyte, and the page `/docs` needs seven of them. */
  documents: 60,
  /** Enough for several people who type at once, and too few to look up long lists of names. */
  names: 120,
  /** A response has up to 1,000 quotes, twenty times as many as a page of the list. */
  lookups: 60,
  /** Enough for a room of people who scan the same QR code. All of them at once take the event loop for about 130 ms. */
  pages: 120,
} as const;

/** Counted for all requests. The owner of an IPv6 /32 needs 27 s to evict as many, and only those without requests. */
export const MAX_COUNTED_PREFIXES = 131_072;

/** The prefixes or public keys that every other limit counts. */
export const MAX_COUNTED_KEYS = 20_000;

export const MAX_PAGE_SIZE = 50;

export const MAX_FOUND_QUOTES = 1_000;

/** Payments in a summary. SQLite takes about 2 ms for so many, during which the process does nothing else. */
export const MAX_COUNTED_PAYMENTS = 2_000;

/** A wallet that wakes up sends several messages together. */
export const SOCKET_BURST_SECONDS = 2;

/** About 400 updates. A client with more unread data does not read. */
export const MAX_SOCKET_SEND_BUFFER_BYTES = 32 * 1024;

/**
 * The commas and opening brackets in a message. A `challenge-response` has two. Messages do not count as requests, so
 * 200 sockets of one address could otherwise spend a core on parsing.
 */
export const MAX_SOCKET_MESSAGE_ELEMENTS = 100;

export const SOCKET_SERVER_OPTIONS = {
  // The longest message contains a signed event in base64 and has about 600 bytes.
  maxPayload: 16 * 1024,
  // Proxies may split a message. The library's default is 16,384.
  maxFragments: 16,
  // Twice as many chunks as the longest message needs in the smallest IPv4 packets.
  maxBufferedChunks: 64,
  // How long a client may take to complete the closing handshake.
  closeTimeout: 1_000,
} as const;
