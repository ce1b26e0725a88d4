/** What this server takes from a client, each with its reason. */

/** The largest body that an endpoint needs is a mint's url. */
export const MAX_BODY_BYTES = 32 * 1024;

/**
 * Of the request line, url and all, and the headers together. Node's default of 16 KiB is less than a
 * long Cashu token in `X-Cashu` takes.
 */
export const MAX_HEADER_BYTES = 64 * 1024;

/**
 * Longer than a path can be within {@link MAX_HEADER_BYTES}: Fastify's default of 100 would answer for
 * the routes, which themselves say what is wrong with a long name or token.
 */
export const MAX_PATH_PARAMETER_LENGTH = 128 * 1024;

/** A client that has not sent its whole request by then is not going to. */
export const REQUEST_TIMEOUT_MS = 30_000;

/** The same of its headers, counted from the beginning of a connection, or of a later request. */
export const HEADERS_TIMEOUT_MS = 10_000;

/** How often both are looked at; Node's default of 30 s would double them. */
export const TIMEOUT_CHECK_MS = 5_000;

/**
 * An idle connection is kept between two requests for longer than usual reverse proxies and load balancers keep it (a
 * minute), so that they close it first.
 */
export const KEEP_ALIVE_MS = 72_000;

/** A connection without traffic during a request: longer than any answer takes, so the client does not read its own. */
export const IDLE_CONNECTION_MS = 120_000;

/**
 * Connections at a time, beside those that may be quote sockets: far more than a process can serve, and
 * fewer than the files that a system lets it open. An idle one takes some 10 KB, a stranger's for two minutes.
 */
export const MAX_HTTP_CONNECTIONS = 10_000;

/**
 * Of the API's description and the files of the page at `/docs`, to one address. They are as long as
 * half a megabyte: each that a client does not read holds its connection for {@link IDLE_CONNECTION_MS},
 * or behind a proxy with HTTP/2 one of the proxy's. Drawing the page takes seven, once a day.
 */
export const MAX_DOCUMENTS_PER_MINUTE = 60;

/** A signed event in base64 has about 600 bytes; nothing else that a client sends is longer. */
export const MAX_SOCKET_MESSAGE_BYTES = 16 * 1024;

/**
 * A proxy may split a message, a wallet does not. Each piece costs some hundred bytes beside its content,
 * and the library's own bound would let a single message have 16,384 of them.
 */
export const MAX_SOCKET_FRAGMENTS = 16;

/**
 * Pieces that the network may deliver one message in: twice what {@link MAX_SOCKET_MESSAGE_BYTES} take in
 * the smallest packets of IPv4. Sent byte by byte, it would take some megabytes.
 */
export const MAX_SOCKET_CHUNKS = 64;

/**
 * A reader that lets this much pile up, beside what the system holds for it, does not read: some 400
 * updates, which take 85 KB of memory. 20,000 such sockets would take 655 MB as they are counted, 1.7 GB
 * in fact; but answers to what they send cannot fill one before it misses a heartbeat, only payments can.
 */
export const MAX_SOCKET_BACKLOG_BYTES = 32 * 1024;

/** A client that has not answered the closing handshake by then is cut off; so is one at the end. */
export const SOCKET_GOODBYE_MS = 1_000;

/**
 * How often a socket's other end is asked for a sign of life, by a WebSocket ping. One that has not
 * answered by the next time is dropped.
 */
export const SOCKET_HEARTBEAT_MS = 30_000;
