import type { Event, Filter } from 'nostr-tools';
import type { EventSigner } from '../auth/event-signer.ts';
import type { EventVerifier } from '../auth/event-verifier.ts';
import type { Clock } from '../domain/clock.ts';
import type { Log } from '../log.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import type { PublishAnswer } from './publish-answer.ts';
import { RelayConnection } from './relay-connection.ts';
import { DEFAULT_RELAY_TIMING, type RelayTiming } from './relay-timing.ts';

export type { PublishAnswer } from './publish-answer.ts';

/** Connections that are kept with nothing under way; each is a descriptor here and there. */
const MAX_IDLE = 64;

/** Of those, of one host: whoever makes urls of it up is not to have all of them. */
const MAX_IDLE_OF_HOST = 4;

/** What a pool is made of. */
export interface RelayPoolParts {
  connect: SocketConnector;
  /** Whose key answers where a relay wants AUTH; null: nobody's, and such relays refuse. */
  signer: EventSigner | null;
  verifyEvent: EventVerifier;
  clock: Clock;
  log: Log;
  timing?: Partial<RelayTiming>;
}

/**
 * The connections to relays: one for each url, shared by all who have something for that relay, opened
 * when there is something, and closed when there was nothing for a while.
 *
 * How many relays are spoken to at a time is up to the caller; the pool bounds what is kept idle.
 */
export class RelayPool {
  readonly #parts: RelayPoolParts;
  readonly #timing: RelayTiming;
  /** Those that take something, by url. */
  readonly #connections = new Map<string, RelayConnection>();
  /** Those with nothing under way, by url, and when each is closed; the longest idle one first. */
  readonly #idle = new Map<string, NodeJS.Timeout>();
  /** Those whose sockets are there, of use or not. */
  readonly #open = new Set<RelayConnection>();
  #isClosed = false;

  constructor(parts: RelayPoolParts) {
    this.#parts = parts;
    this.#timing = { ...DEFAULT_RELAY_TIMING, ...parts.timing };
  }

  /**
   * Publishes an event; many may be under way at a time. Never rejects for anything that a relay does.
   *
   * @param url as `normaliseRelayUrl` writes it
   * @param event.text the event's JSON, which is sent as it is
   */
  async publish(url: string, event: { id: string; text: string }): Promise<PublishAnswer> {
    const connection = this.#connectionTo(url);
    return connection === null
      ? { outcome: 'unreachable', reason: 'closed' }
      : connection.publish(event);
  }

  /**
   * Asks a relay for stored events: distinct, verified, matching the filter, in the relay's order.
   * They may be fewer than the relay has where the time was over or the connection lost.
   *
   * @param options.timeoutMs for all of it, the opening of the connection included
   * @param options.limit how many are enough
   * @returns null where the relay gave no answer
   */
  async query(
    url: string,
    filter: Filter,
    options: { timeoutMs: number; limit: number },
  ): Promise<Event[] | null> {
    return this.#connectionTo(url)?.query(filter, options) ?? null;
  }

  /** Ends everything that is under way; resolves once no socket is left. Nothing is opened any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const open = [...this.#open];
    for (const connection of open) {
      connection.close();
    }
    await Promise.all(open.map(({ closed }) => closed));
  }

  /** The connection that is shared, opened where there is none; null once the pool is closed. */
  #connectionTo(url: string): RelayConnection | null {
    if (this.#isClosed) {
      return null;
    }
    this.#leaveIdle(url);
    const connection = this.#connections.get(url);
    return connection?.isUsable ? connection : this.#openTo(url);
  }

  #openTo(url: string): RelayConnection {
    const { connect, signer, verifyEvent, clock, log } = this.#parts;
    const connection = new RelayConnection({
      url,
      socket: connect(url),
      signer,
      verifyEvent,
      clock,
      log,
      timing: this.#timing,
      onIdle: () => this.#becomeIdle(url, connection),
      onEnd: () => this.#forget(url, connection),
    });
    this.#connections.set(url, connection);
    this.#open.add(connection);
    void connection.closed.then(() => this.#open.delete(connection));
    return connection;
  }

  #becomeIdle(url: string, connection: RelayConnection): void {
    this.#leaveIdle(url);
    this.#idle.set(url, setTimeout(() => connection.close(), this.#timing.idleMs).unref());
    const host = hostOf(url);
    const ofHost = [...this.#idle.keys()].filter((idle) => hostOf(idle) === host);
    if (ofHost.length > MAX_IDLE_OF_HOST) {
      this.#closeLongestIdle(ofHost);
    }
    if (this.#idle.size > MAX_IDLE) {
      this.#closeLongestIdle(this.#idle.keys());
    }
  }

  #closeLongestIdle(urls: Iterable<string>): void {
    const [longest = ''] = urls;
    this.#connections.get(longest)?.close();
  }

  /** Another may have taken its place since its relay said goodbye. */
  #forget(url: string, connection: RelayConnection): void {
    if (this.#connections.get(url) === connection) {
      this.#leaveIdle(url);
      this.#connections.delete(url);
    }
  }

  #leaveIdle(url: string): void {
    clearTimeout(this.#idle.get(url));
    this.#idle.delete(url);
  }
}

function hostOf(url: string): string {
  return new URL(url).host;
}
