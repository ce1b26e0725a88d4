/** What this server accepts from a client, each bound with its reason. */

/** No endpoint needs more than a mint's URL. */
export const MAX_BODY_BYTES = 32 * 1024;

/** The request line and the headers together: Node's default of 16 KiB is too small for a long token in `X-Cashu`. */
export const MAX_HEADER_BYTES = 64 * 1024;

/** Never reached within {@link MAX_HEADER_BYTES}, so that the routes themselves report a long name or token. */
export const MAX_PATH_PARAMETER_LENGTH = 128 * 1024;

export const REQUEST_TIMEOUT_MS = 30_000;

/** From the beginning of a connection, or of a later request. */
export const HEADERS_TIMEOUT_MS = 10_000;

/** How often both timeouts are checked; Node's default of 30 s would double them. */
export const TIMEOUT_CHECK_MS = 5_000;

/** Longer than reverse proxies and load balancers usually keep an idle connection, so that they close it first. */
export const KEEP_ALIVE_MS = 72_000;

/** Longer than any response takes: a connection without traffic for that long belongs to a client that does not read. */
export const IDLE_CONNECTION_MS = 120_000;

/**
 * Connections beside the quote sockets: far more than a process can serve, and fewer than the files that it may open. An
 * idle one takes about 10 KB.
 */
export const MAX_HTTP_CONNECTIONS = 10_000;

/**
 * Requests per address for the API's description and the files of `/docs`. They are as long as half a megabyte, and hold
 * their connection until the client has read them. The page loads seven, once a day.
 */
export const MAX_DOCUMENTS_PER_MINUTE = 60;

/** A signed event in base64 has about 600 bytes; no other message is longer. */
export const MAX_SOCKET_MESSAGE_BYTES = 16 * 1024;

/** A proxy may split a message, a wallet does not. The library's own bound is 16,384. */
export const MAX_SOCKET_FRAGMENTS = 16;

/** Network packets of one message: twice what {@link MAX_SOCKET_MESSAGE_BYTES} take in the smallest packets of IPv4. */
export const MAX_SOCKET_CHUNKS = 64;

/**
 * A client with a larger backlog does not read: about 400 updates, which take 85 KB of memory. Responses to its own
 * messages cannot fill it before a missed heartbeat, only payments can.
 */
export const MAX_SOCKET_BACKLOG_BYTES = 32 * 1024;

/** How long a client may take to answer the closing handshake. */
export const SOCKET_GOODBYE_MS = 1_000;

/** Interval of WebSocket pings. A client that has not answered one by the next is dropped. */
export const SOCKET_HEARTBEAT_MS = 30_000;
