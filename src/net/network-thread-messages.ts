import type { CloseReason } from './guarded-websocket.ts';
import type { HttpRequest, HttpResponse } from './http-client.ts';
import type { FetchLimits } from './limits.ts';

export interface NetworkThreadOptions {
  allowPrivateNetworks: boolean;
  limits: FetchLimits;
  statusMemory: SharedArrayBuffer;
}

/** From the main thread to the network thread. Ids are unique. */
export type NetworkThreadRequest =
  | { kind: 'request'; id: number; clientId: number; request: HttpRequest }
  | { kind: 'connect'; id: number; url: string; site: string }
  | { kind: 'send'; id: number; text: string }
  | { kind: 'ping' | 'close' | 'terminate'; id: number }
  /** The main thread is ready for the next batch of replies. */
  | { kind: 'next' };

/** From the network thread to the main thread, which gets them in batches. */
export type NetworkThreadReply =
  | { kind: 'response'; id: number; response: HttpResponse }
  | { kind: 'open' | 'pong'; id: number }
  | { kind: 'message'; id: number; text: string }
  | { kind: 'close'; id: number; reason: CloseReason };

/** The origin of a URL in production is shorter. */
const MAX_ORIGIN_BYTES = 512;

const COUNTERS_BYTES = 2 * Int32Array.BYTES_PER_ELEMENT;

/**
 * Memory of both threads, which the main thread can read while the network thread is blocked: a counter of heartbeats,
 * and the origin with which the network thread has been busy since then.
 */
export class NetworkThreadStatus {
  readonly memory: SharedArrayBuffer;
  /** The heartbeats, and the length of the origin. */
  readonly #counters: Int32Array;
  readonly #origin: Buffer;
  #lastOrigin = '';

  constructor(memory = new SharedArrayBuffer(COUNTERS_BYTES + MAX_ORIGIN_BYTES)) {
    this.memory = memory;
    this.#counters = new Int32Array(memory, 0, 2);
    this.#origin = Buffer.from(memory, COUNTERS_BYTES);
  }

  get heartbeats(): number {
    return Atomics.load(this.#counters, 0);
  }

  recordHeartbeat(): void {
    this.#setOrigin('');
    Atomics.add(this.#counters, 0, 1);
  }

  /** Null if the network thread has been idle since the last heartbeat. */
  get busyOrigin(): string | null {
    const length = Atomics.load(this.#counters, 1);
    return length === 0 ? null : this.#origin.toString('utf8', 0, length);
  }

  /** Must be called before a step that may block because of the origin. */
  recordOrigin(origin: string): void {
    // Most bytes come in sequence from one host.
    if (origin !== this.#lastOrigin) {
      this.#setOrigin(origin);
    }
  }

  #setOrigin(origin: string): void {
    this.#lastOrigin = origin;
    Atomics.store(this.#counters, 1, this.#origin.write(origin));
  }
}
