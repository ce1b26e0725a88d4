// Bounds that operators do not set. Those of Node's HTTP server are in `server.ts`.

/** At shutdown, connections are closed after this time, even if a client has not read its response. */
export const CLIENT_DEADLINE_MS = 4_000;

/** The total length of unread responses, in UTF-16 code units. About 90 of the longest lists of quotes fit. */
export const MAX_UNREAD_LENGTH = 64 * 1024 * 1024;

/** Shorter responses are not counted: they fit into the buffers of the operating system, or take little memory. */
export const MIN_COUNTED_RESPONSE_LENGTH = 16 * 1024;

/** Wallets send about 1 KB. Parsing very long credentials would delay other requests. */
export const MAX_CREDENTIAL_LENGTH = 8 * 1024;

/** For routes that cost more than others: per address and, with authentication, also per public key. */
export const ROUTE_REQUESTS_PER_MINUTE = {
  /** A response has up to half a megabyte, and the page `/docs` needs seven of them. */
  documents: 60,
  /** Enough for several people who type at once, and too few to look up long lists of names. */
  nameLookups: 120,
  /** A response has up to 1,000 quotes, twenty times as many as a page of the list. */
  quoteLookups: 60,
  /** Enough for a room of people who scan the same QR code. Their requests take about 130 ms of CPU time together. */
  pages: 120,
} as const;

/** In other changes of settings, because it stores up to 45 KB. */
export const NOTIFICATION_CHANGE_COST = 15;

/** Address prefixes whose requests are counted. The owner of an IPv6 /32 needs 27 s to evict one without new requests. */
export const MAX_COUNTED_PREFIXES = 131_072;

/** Public keys, or prefixes that requested an expensive route, whose requests are counted. */
export const MAX_COUNTED_KEYS = 20_000;

export const MAX_QUOTES_PER_PAGE = 50;

export const MAX_QUOTE_LOOKUP_IDS = 1_000;

/** SQLite takes about 2 ms to add up so many, during which the process does nothing else. */
export const MAX_SUMMARISED_PAYMENTS = 2_000;

/** Messages of a socket are counted for this time, because a wallet that wakes up sends several at once. */
export const SOCKET_RATE_WINDOW_SECONDS = 2;

/** About 400 updates. If more data waits to be sent, the client has stopped reading. */
export const MAX_SOCKET_SEND_BUFFER_BYTES = 32 * 1024;

/** Commas and opening brackets in a message; a `challenge-response` has two. Limits the time that parsing takes. */
export const MAX_SOCKET_MESSAGE_ELEMENTS = 100;

export const SOCKET_SERVER_OPTIONS = {
  // The longest message contains a signed event in base64 and has about 600 bytes.
  maxPayload: 16 * 1024,
  // Proxies may split a message. The library's default is 16,384.
  maxFragments: 16,
  // Twice the number of the smallest IPv4 packets that the longest message needs.
  maxBufferedChunks: 64,
  // Milliseconds that a client may take to complete the closing handshake.
  closeTimeout: 1_000,
} as const;
