import type { ApiClient } from './api-client.ts';
import { SignerError } from './signer.ts';

const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;

/** After a connection of this length, the next retry is quick again. */
const STABLE_CONNECTION_MS = 30_000;

/** Finds connections that died while the computer slept. */
const HEARTBEAT_MS = 30_000;

/** The server accepts a signature for a minute. Within that time, a reconnect needs no new one. */
const SIGNATURE_LIFETIME_MS = 45_000;

/** RFC 6455 close code. Without an `error` message before it, the key has too many connections. */
const POLICY_VIOLATION = 1008;

/** `paused`: does not reconnect until {@link LiveUpdates.connect} is called, because the user has to act. */
export type LiveStatus = 'connecting' | 'live' | 'reconnecting' | 'paused';

interface LiveHandlers {
  onUpdate: (quoteId: string) => void;
  /** @param problem a sentence for the user if the status is `paused` */
  onStatus: (status: LiveStatus, problem?: string) => void;
}

interface ServerMessage {
  type: string;
  payload?: unknown;
}

/**
 * Receives updates from the quote WebSocket. Each connection needs a signature, for which some signers ask the user, so
 * it reconnects only while the user sees the page, and not after the signer refused.
 */
export class LiveUpdates {
  readonly #api: Pick<ApiClient, 'signRequest'>;
  readonly #handlers: LiveHandlers;
  #socket: WebSocket | null = null;
  #status: LiveStatus = 'connecting';
  #isClosed = false;
  #isSigning = false;
  #hasResponded = false;
  #signature: { value: string; requestedAtMs: number } | null = null;
  #failedAttempts = 0;
  #liveSinceMs: number | null = null;
  #isPongDue = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #heartbeat: ReturnType<typeof setInterval>;

  constructor(api: Pick<ApiClient, 'signRequest'>, handlers: LiveHandlers) {
    this.#api = api;
    this.#handlers = handlers;
    this.#heartbeat = setInterval(() => this.#checkConnection(), HEARTBEAT_MS);
    document.addEventListener('visibilitychange', this.#handleVisibility);
  }

  connect(): void {
    this.#drop();
    if (this.#status !== 'reconnecting') {
      this.#setStatus('connecting');
    }
    this.#hasResponded = false;
    const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}/api/v2/ws/quote`);
    this.#socket = socket;
    let hasError = false;
    socket.onmessage = ({ data }) => {
      const message: ServerMessage = JSON.parse(String(data));
      hasError ||= message.type === 'error';
      this.#handleMessage(socket, message);
    };
    socket.onclose = ({ code }) => {
      if (code === POLICY_VIOLATION && !hasError) {
        this.pause('Too many pages and wallets with this key are connected.');
      } else {
        this.#handleDisconnect();
      }
    };
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#heartbeat);
    document.removeEventListener('visibilitychange', this.#handleVisibility);
    this.#drop();
  }

  pause(problem: string): void {
    this.#drop();
    this.#setStatus('paused', problem);
  }

  #handleMessage(socket: WebSocket, { type, payload }: ServerMessage): void {
    switch (type) {
      case 'challenge':
        void this.#respond(socket, payload as { url: string; method: string });
        break;
      case 'challenge-success':
        this.#liveSinceMs = Date.now();
        this.#setStatus('live');
        break;
      case 'update':
        this.#handlers.onUpdate((payload as { quoteId: string }).quoteId);
        break;
      case 'pong':
        this.#isPongDue = false;
        break;
      case 'error':
        if (this.#hasResponded && this.#status !== 'live') {
          this.pause(`The server refused the connection: ${String(payload)}`);
        }
        break;
      default:
    }
  }

  async #respond(
    socket: WebSocket,
    { url, method }: { url: string; method: string },
  ): Promise<void> {
    try {
      const signature = await this.#sign(url, method);
      if (this.#isClosed) {
        return;
      }
      if (socket.readyState === WebSocket.OPEN) {
        this.#hasResponded = true;
        socket.send(JSON.stringify({ type: 'challenge-response', payload: signature }));
      } else {
        // The server did not wait for the user. The new connection uses the same signature.
        this.connect();
      }
    } catch (error) {
      if (!this.#isClosed && error instanceof SignerError) {
        this.pause(error.message);
      }
    }
  }

  async #sign(url: string, method: string): Promise<string> {
    const nowMs = Date.now();
    if (this.#signature !== null && nowMs - this.#signature.requestedAtMs < SIGNATURE_LIFETIME_MS) {
      return this.#signature.value;
    }
    this.#isSigning = true;
    try {
      const value = await this.#api.signRequest(url, method);
      this.#signature = { value, requestedAtMs: nowMs };
      return value;
    } finally {
      this.#isSigning = false;
    }
  }

  #handleDisconnect(): void {
    this.#drop();
    this.#setStatus('reconnecting');
    // Otherwise the signer would ask the user twice at the same time.
    if (this.#isSigning) {
      return;
    }
    const backoffMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failedAttempts, MAX_RETRY_MS);
    this.#failedAttempts += 1;
    this.#timer = setTimeout(() => this.#reconnect(), backoffMs * (0.5 + Math.random() / 2));
  }

  #reconnect(): void {
    if (!document.hidden) {
      this.connect();
    }
  }

  readonly #handleVisibility = () => {
    if (this.#status === 'reconnecting' && this.#socket === null && !this.#isSigning) {
      this.#reconnect();
    }
  };

  #checkConnection(): void {
    if (this.#isPongDue) {
      this.#handleDisconnect();
    } else if (this.#status === 'live') {
      this.#isPongDue = true;
      this.#socket?.send('{"type":"ping"}');
    }
  }

  /** Forgets the connection without waiting until it is closed. */
  #drop(): void {
    clearTimeout(this.#timer);
    if (this.#socket !== null) {
      this.#socket.onclose = null;
      this.#socket.onmessage = null;
      this.#socket.close();
      this.#socket = null;
    }
    if (this.#liveSinceMs !== null && Date.now() - this.#liveSinceMs > STABLE_CONNECTION_MS) {
      this.#failedAttempts = 0;
    }
    this.#liveSinceMs = null;
    this.#isPongDue = false;
  }

  #setStatus(status: LiveStatus, problem?: string): void {
    this.#status = status;
    this.#handlers.onStatus(status, problem);
  }
}
