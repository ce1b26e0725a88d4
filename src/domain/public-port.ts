/** What listens below it is the system's own: mail, remote shells, name and file servers. */
const FIRST_UNPRIVILEGED_PORT = 1024;

/**
 * Whether a stranger's https or wss url leads to a port that we may be sent to: 443, or one that
 * needs no privilege.
 *
 * No other well-known port is refused: TLS comes first on every connection, so that no other
 * protocol hears a word of what a stranger writes, and the address must be public, so that a
 * stranger gets there without us. A longer list would only hit honest mints.
 */
export function isPublicPort({ port }: Pick<URL, 'port'>): boolean {
  return port === '' || Number(port) >= FIRST_UNPRIVILEGED_PORT;
}
