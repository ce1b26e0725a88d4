// The bounds of the HTTP server that operators do not set. config.ts has the others.

/** Connections besides quote sockets. More than a process can serve, but fewer than its file descriptors. */
export const MAX_HTTP_CONNECTIONS = 10_000;

/** They pile up while the process is busy. With Node's default of 511, clients would wait or get ECONNRESET. */
export const MAX_UNACCEPTED_CONNECTIONS = 4_096;

/** A rejected connection stays open for a while, so that the client can read the response. */
export const REJECTED_CONNECTION_LINGER_MS = 1_000;

/** At shutdown, the connections of clients are closed after this time. */
export const CLIENT_DEADLINE_MS = 4_000;

/** The longest valid body of most routes contains a mint URL. */
export const MAX_BODY_BYTES = 32 * 1024;

/** Includes the request line. Node's 16 KiB are too small for a long token in `X-Cashu`. */
export const MAX_HEADER_BYTES = 64 * 1024;

/** Longer than the longest URL, so that each route itself rejects long names and tokens. */
export const MAX_PATH_PARAMETER_LENGTH = 128 * 1024;

/** In UTF-16 code units. Room for about 90 of the longest lists of quotes, which have 0.7 MB each. */
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

/** Quotes per page of the list. */
export const MAX_PAGE_SIZE = 50;

/** The largest valid `limit` of a request for the list. */
export const MAX_REQUESTED_PAGE_SIZE = 1_000;

/** The most ids in a request for certain quotes. */
export const MAX_FOUND_QUOTES = 1_000;

/** Payments in a summary. SQLite takes about 2 ms for so many, during which the process does nothing else. */
export const MAX_COUNTED_PAYMENTS = 2_000;

/** A client of the quote socket that has not responded to a ping by the next one is disconnected. */
export const SOCKET_HEARTBEAT_INTERVAL_MS = 30_000;

/** `Retry-After` of the limits on quote sockets. Dead connections are closed within two heartbeat intervals. */
export const SOCKET_LIMIT_RETRY_MS = 60_000;

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
