import type { Filter } from 'nostr-tools';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import type { PublishResult } from './delivery-policy.ts';
import { RELAY_CONNECTION_LIMITS } from './limits.ts';
import { RelayConnection, type RelayContext, type RelayQueryResult } from './relay-connection.ts';

/** Shares one connection per relay URL. At the limits, closes the least recently used idle one. */
export class RelayPool {
  readonly #connect: WebSocketConnector;
  readonly #context: RelayContext;
  /** The most recently used connection is last. */
  readonly #connections = new Set<RelayConnection>();
  #isClosed = false;

  constructor(connect: WebSocketConnector, context: RelayContext) {
    this.#connect = connect;
    this.#context = context;
  }

  async publish(url: string, event: { id: string; eventJson: string }): Promise<PublishResult> {
    return this.#isClosed
      ? { outcome: 'unreachable', message: 'closed' }
      : this.#getConnection(url).publish(event);
  }

  /** Finds the newest event that matches a filter. @param timeoutMs includes the handshake */
  async query(url: string, filter: Filter, timeoutMs: number): Promise<RelayQueryResult> {
    return this.#isClosed
      ? { outcome: 'no_response' }
      : this.#getConnection(url).query(filter, timeoutMs);
  }

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
    const connection = usable.find((open) => open.url === url) ?? this.#open(url, usable);
    this.#connections.delete(connection);
    this.#connections.add(connection);
    return connection;
  }

  #open(url: string, usable: readonly RelayConnection[]): RelayConnection {
    const { host } = new URL(url);
    const sameHost = usable.filter((each) => new URL(each.url).host === host);
    if (sameHost.length >= RELAY_CONNECTION_LIMITS.maxPerHost) {
      sameHost.find(({ isIdle }) => isIdle)?.close();
    } else if (usable.length >= RELAY_CONNECTION_LIMITS.max) {
      usable.find(({ isIdle }) => isIdle)?.close();
    }
    const connection = new RelayConnection(url, this.#connect(url), this.#context);
    void connection.closed.then(() => this.#connections.delete(connection));
    return connection;
  }
}
