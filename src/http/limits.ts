/** What this server takes from a client, each with its reason. */

/** The largest body that an endpoint needs is a mint's url. */
export const MAX_BODY_BYTES = 32 * 1024;

/** Node's default of 16 KiB is less than a long Cashu token in `X-Cashu` takes. */
export const MAX_HEADER_BYTES = 64 * 1024;

/**
 * Longer than a path can be within {@link MAX_HEADER_BYTES}: Fastify's default of 100 would answer for
 * the routes, which themselves say what is wrong with a long name or token.
 */
export const MAX_PATH_PARAMETER_LENGTH = 128 * 1024;

/** A client that has not sent its whole request by then is not going to. */
export const REQUEST_TIMEOUT_MS = 30_000;

/** A signed event in base64 has about 600 bytes; nothing else that a client sends is longer. */
export const MAX_SOCKET_MESSAGE_BYTES = 16 * 1024;

/** A reader that lets this much pile up does not read. */
export const MAX_SOCKET_BACKLOG_BYTES = 256 * 1024;

/** How often a socket's other end is asked for a sign of life, by a WebSocket ping. */
export const SOCKET_HEARTBEAT_MS = 30_000;
