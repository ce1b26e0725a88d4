import type { Filter } from 'nostr-tools';
import type { PublishResult } from '../domain/receipt-delivery.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import {
  DEFAULT_RELAY_TIMING,
  type QueryResult,
  RelayConnection,
  type RelayConnectionParts,
  type RelayTiming,
} from './relay-connection.ts';

/** More than the dispatcher uses at a time; each is a descriptor here and at the relay. */
const MAX_CONNECTIONS = 256;

/** Filtering relays have a URL for each user, and strangers invent URLs. */
const MAX_CONNECTIONS_OF_HOST = 8;

/** What a pool needs. */
export type RelayPoolParts = Pick<
  RelayConnectionParts,
  'signer' | 'verifyEvent' | 'clock' | 'log'
> & {
  connect: SocketConnector;
  timing?: Partial<RelayTiming>;
};

/**
 * Shares one connection to each relay. At its bounds, it closes the idle connection that was used the
 * longest ago; the callers bound how many are busy.
 */
export class RelayPool {
  readonly #parts: RelayPoolParts;
  /** Usable ones by URL, the one used last at the end. */
  readonly #connections = new Map<string, RelayConnection>();
  /** All with a socket. */
  readonly #open = new Set<RelayConnection>();
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
    const open = [...this.#open];
    for (const connection of open) {
      connection.close();
    }
    await Promise.all(open.map(({ closed }) => closed));
  }

  #connectionTo(url: string): RelayConnection {
    const shared = this.#connections.get(url);
    const connection = shared?.isUsable ? shared : this.#openTo(url);
    this.#connections.delete(url);
    this.#connections.set(url, connection);
    return connection;
  }

  #openTo(url: string): RelayConnection {
    this.#makeRoom(url);
    const { connect, timing, ...parts } = this.#parts;
    const connection = new RelayConnection({
      ...parts,
      url,
      socket: connect(url),
      timing: { ...DEFAULT_RELAY_TIMING, ...timing },
      onEnd: () => {
        if (this.#connections.get(url) === connection) {
          this.#connections.delete(url);
        }
      },
    });
    this.#open.add(connection);
    void connection.closed.then(() => this.#open.delete(connection));
    return connection;
  }

  #makeRoom(url: string): void {
    const host = hostOf(url);
    const all = [...this.#connections];
    const ofHost = all.filter(([other]) => hostOf(other) === host);
    if (ofHost.length >= MAX_CONNECTIONS_OF_HOST) {
      closeFirstIdle(ofHost);
    } else if (all.length >= MAX_CONNECTIONS) {
      closeFirstIdle(all);
    }
  }
}

function closeFirstIdle(connections: readonly [string, RelayConnection][]): void {
  connections.find(([, { isIdle }]) => isIdle)?.[1].close();
}

function hostOf(url: string): string {
  return new URL(url).host;
}
