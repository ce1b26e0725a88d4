import type { Filter } from 'nostr-tools';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import type { PublishResult } from './delivery-policy.ts';
import {
  RelayConnection,
  type RelayConnectionDeps,
  type RelayQueryResult,
  type RelayTimeouts,
} from './relay-connection.ts';

const DEFAULT_TIMEOUTS: Readonly<RelayTimeouts> = {
  responseTimeoutMs: 5_000,
  idleTimeoutMs: 30_000,
};

/** More connections than the dispatcher uses concurrently. Each uses a file descriptor. */
const MAX_CONNECTIONS = 256;

/** Some relays have a URL per user, and payers can invent URLs of any host. */
const MAX_CONNECTIONS_PER_HOST = 8;

export type RelayPoolDeps = Omit<RelayConnectionDeps, 'url' | 'socket' | 'timeouts'> & {
  connect: WebSocketConnector;
  timeouts?: Partial<RelayTimeouts>;
};

/**
 * Shares one connection per relay URL. At the limits, closes the least recently used idle connection. The pool does
 * not limit the number of busy connections; its users do.
 */
export class RelayPool {
  readonly #deps: RelayPoolDeps;
  /** The most recently used connection is last. */
  readonly #connections = new Set<RelayConnection>();
  #isClosed = false;

  constructor(deps: RelayPoolDeps) {
    this.#deps = deps;
  }

  /**
   * Publishes an event. The promise never rejects because of the relay.
   *
   * @param url normalised
   * @param event.eventJson the signed event, which is sent unchanged
   */
  async publish(url: string, event: { id: string; eventJson: string }): Promise<PublishResult> {
    return this.#isClosed
      ? { outcome: 'unreachable', reason: 'closed' }
      : this.#getConnection(url).publish(event);
  }

  /**
   * Finds the newest event at a relay that matches a filter, and verifies its signature.
   *
   * @param timeoutMs includes the handshake
   */
  async query(url: string, filter: Filter, timeoutMs: number): Promise<RelayQueryResult> {
    return this.#isClosed
      ? { outcome: 'no_response' }
      : this.#getConnection(url).query(filter, timeoutMs);
  }

  /** Ends all requests, rejects new ones, and resolves when all sockets are closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const connections = [...this.#connections];
    for (const connection of connections) {
      connection.close();
    }
    await Promise.all(connections.map(({ closed }) => closed));
  }

  #getConnection(url: string): RelayConnection {
    const usable = [...this.#connections].filter(({ isUsable }) => isUsable);
    let connection = usable.find((open) => open.url === url);
    if (connection === undefined) {
      closeIdleConnectionIfFull(usable, url);
      connection = this.#open(url);
    }
    this.#connections.delete(connection);
    this.#connections.add(connection);
    return connection;
  }

  #open(url: string): RelayConnection {
    const { connect, timeouts, ...deps } = this.#deps;
    const connection = new RelayConnection({
      ...deps,
      url,
      socket: connect(url),
      timeouts: { ...DEFAULT_TIMEOUTS, ...timeouts },
    });
    void connection.closed.then(() => this.#connections.delete(connection));
    return connection;
  }
}

function closeIdleConnectionIfFull(connections: readonly RelayConnection[], url: string): void {
  const { host } = new URL(url);
  const sameHost = connections.filter((each) => new URL(each.url).host === host);
  if (sameHost.length >= MAX_CONNECTIONS_PER_HOST) {
    sameHost.find(({ isIdle }) => isIdle)?.close();
  } else if (connections.length >= MAX_CONNECTIONS) {
    connections.find(({ isIdle }) => isIdle)?.close();
  }
}
