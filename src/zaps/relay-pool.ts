import type { Filter } from 'nostr-tools';
import type { SocketConnector } from '../net/guarded-socket.ts';
import type { PublishResult } from './receipt-delivery.ts';
import { type QueryResult, RelayConnection, type RelayConnectionParts, type RelayTiming } from './relay-connection.ts';

const DEFAULT_TIMING: Readonly<RelayTiming> = { answerTimeoutMs: 5_000, idleMs: 30_000 };

/** More than the dispatcher uses at a time; each is a descriptor here and at the relay. */
const MAX_CONNECTIONS = 256;

/** Filtering relays have a URL for each user, and strangers invent URLs. */
const MAX_CONNECTIONS_OF_HOST = 8;

export type RelayPoolParts = Omit<RelayConnectionParts, 'url' | 'socket' | 'timing'> & {
  connect: SocketConnector;
  timing?: Partial<RelayTiming>;
};

/**
 * Shares one connection to each relay. At its bounds, it closes the idle connection that was used the
 * longest ago; the callers bound how many are busy.
 */
export class RelayPool {
  readonly #parts: RelayPoolParts;
  /** All with a socket, the one used last at the end. */
  readonly #connections = new Set<RelayConnection>();
  #isClosed = false;

  constructor(parts: RelayPoolParts) {
    this.#parts = parts;
  }

  /**
   * Publishes an event. Never rejects for anything that a relay does.
   *
   * @param url normalised
   * @param event.text the event's JSON, which is sent unchanged
   */
  async publish(url: string, event: { id: string; text: string }): Promise<PublishResult> {
    return this.#isClosed
      ? { outcome: 'unreachable', reason: 'closed' }
      : this.#connectionTo(url).publish(event);
  }

  /**
   * Finds the newest stored event that matches a filter; its signature is verified.
   *
   * @param timeoutMs includes the handshake
   */
  async query(url: string, filter: Filter, timeoutMs: number): Promise<QueryResult> {
    return this.#isClosed
      ? { outcome: 'unanswered' }
      : this.#connectionTo(url).query(filter, timeoutMs);
  }

  /** Ends every request, refuses new ones, and resolves when all sockets are closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all(connections.map(({ closed }) => closed));
  }

  #connectionTo(url: string): RelayConnection {
    const usable = [...this.#connections].filter(({ isUsable }) => isUsable);
    let connection = usable.find((each) => each.url === url);
    if (connection === undefined) {
      closeOneOf(usable, url);
      connection = this.#open(url);
    }
    this.#connections.delete(connection);
    this.#connections.add(connection);
    return connection;
  }

  #open(url: string): RelayConnection {
    const { connect, timing, ...parts } = this.#parts;
    const connection = new RelayConnection({
      ...parts,
      url,
      socket: connect(url),
      timing: { ...DEFAULT_TIMING, ...timing },
    });
    void connection.closed.then(() => this.#connections.delete(connection));
    return connection;
  }
}

/** Closes an idle connection if there is no room for one to this URL. */
function closeOneOf(connections: readonly RelayConnection[], url: string): void {
  const { host } = new URL(url);
  const ofHost = connections.filter((each) => new URL(each.url).host === host);
  if (ofHost.length >= MAX_CONNECTIONS_OF_HOST) {
    ofHost.find(({ isIdle }) => isIdle)?.close();
  } else if (connections.length >= MAX_CONNECTIONS) {
    connections.find(({ isIdle }) => isIdle)?.close();
  }
}
