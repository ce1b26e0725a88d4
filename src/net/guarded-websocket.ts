import { EventEmitter } from 'node:events';
import type { ClientRequestArgs } from 'node:http';
import { connect as connectTcp, isIP, type LookupFunction, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { WebSocket } from 'ws';
import {
  type ConnectionPolicy,
  createLookupOption,
  findForbiddenPart,
  TLS_OPTIONS,
} from './guarded-connection.ts';
import { BYTES_PER_MESSAGE, MAX_HANDSHAKE_BYTES, MAX_HEADER_BYTES } from './limits.ts';
import { MeteredSocket } from './metered-socket.ts';
import { withoutBrackets } from './public-address.ts';
import {
  type HandshakeFailure,
  RequestFailure,
  type RequestFailureReason,
  toHandshakeFailure,
} from './request-failure.ts';

const WEBSOCKET_OPTIONS = {
  followRedirects: false,
  perMessageDeflate: false,
  // A quote or a Nostr event is a few kB.
  maxPayload: 256 * 1024,
  // Each takes more than 100 bytes of memory, however short it is.
  maxFragments: 64,
  maxBufferedChunks: 1_024,
  maxHeaderSize: MAX_HEADER_BYTES,
  closeTimeout: 1_000,
  // A host that sends more pings at once is disconnected.
  maxPendingAutoPongs: 60,
  // Some hosts reject requests without a user agent.
  headers: { 'User-Agent': 'nutpost' },
};

/** Why a WebSocket did not open, or has closed. */
export interface CloseDetails {
  /** `connection lost` if the WebSocket was open. */
  reason: HandshakeFailure;
  /** The HTTP status of a handshake that the host rejected, otherwise null. */
  status: number | null;
}

export interface GuardedSocketEvents {
  open: [];
  /** A text message. Binary messages are ignored. */
  message: [text: string];
  pong: [];
  /** The last event. It also follows a handshake that failed. */
  close: [CloseDetails];
}

/** A WebSocket to an untrusted host. `send` and `ping` have no effect unless it is open. */
export interface GuardedSocket extends EventEmitter<GuardedSocketEvents> {
  readonly state: 'connecting' | 'open' | 'closed';
  send(text: string): void;
  ping(): void;
  /** Starts the closing handshake, which takes at most a second. */
  close(): void;
  terminate(): void;
}

/** Opens a WebSocket. Failures, such as a forbidden address, are `close` events. */
export type WebSocketConnector = (url: string) => GuardedSocket;

/** Connects only by wss to allowed ports of public addresses. Uses no redirects, proxy or compression. */
export function createGuardedWebSocketConnector(
  policy: ConnectionPolicy & { handshakeTimeoutMs?: number },
): (url: string, mayReceive?: MayReceive) => GuardedSocket {
  const lookupOption = createLookupOption(policy);
  return (url, mayReceive) => new DirectSocket(url, { ...policy, lookupOption, mayReceive });
}

interface DirectSocketOptions extends ConnectionPolicy {
  handshakeTimeoutMs?: number;
  lookupOption: { lookup?: LookupFunction };
  mayReceive: MayReceive | undefined;
}

/** Called before bytes are processed. If it returns false, the connection ends. Its presence also limits the handshake. */
type MayReceive = (bytes: number) => boolean;

class DirectSocket extends EventEmitter<GuardedSocketEvents> implements GuardedSocket {
  readonly #socket: WebSocket;
  #failure: unknown = null;
  #status: number | null = null;
  #hasOpened = false;

  constructor(url: string, options: DirectSocketOptions) {
    super();
    this.#socket = new WebSocket(url, {
      ...WEBSOCKET_OPTIONS,
      createConnection: ((_options, callback) =>
        this.#connect(url, options, callback)) satisfies ClientRequestArgs['createConnection'],
    });
    // The timeout of `ws` would not suffice: it restarts with each byte, so a host could prolong the handshake.
    const deadline = setTimeoutAfterPendingIo(
      options.handshakeTimeoutMs ?? 10_000,
      () => this.state === 'connecting' && this.terminate('timed out'),
    );
    this.#socket.once('open', () => {
      clearTimeout(deadline);
      this.#hasOpened = true;
      this.emit('open');
    });
    const { mayReceive = () => true } = options;
    const receive = (emit: () => unknown) =>
      mayReceive(BYTES_PER_MESSAGE) ? emit() : this.#socket.terminate();
    this.#socket.on('message', (data, isBinary) => {
      receive(() => !isBinary && this.state === 'open' && this.emit('message', data.toString()));
    });
    this.#socket.on('pong', () => receive(() => this.emit('pong')));
    this.#socket.once('unexpected-response', (_request, response) => {
      this.#status = response.statusCode ?? null;
      this.#socket.terminate();
    });
    // Without `terminate`, `ws` would continue to read until the closing handshake ends.
    this.#socket.on('error', (error) => this.terminate(error));
    this.#socket.once('close', () => {
      clearTimeout(deadline);
      const status = this.#status;
      const handshakeFailure =
        status === null ? toHandshakeFailure(this.#failure) : 'handshake rejected';
      const reason = this.#hasOpened ? 'connection lost' : handshakeFailure;
      this.emit('close', { reason, status });
    });
  }

  get state(): GuardedSocket['state'] {
    const { readyState, CONNECTING, OPEN } = this.#socket;
    if (readyState === CONNECTING) {
      return 'connecting';
    }
    return readyState === OPEN ? 'open' : 'closed';
  }

  send(text: string): void {
    if (this.state === 'open') {
      this.#socket.send(text);
    }
  }

  ping(): void {
    if (this.state === 'open') {
      this.#socket.ping();
    }
  }

  close(): void {
    this.#failure ??= new RequestFailure('closed');
    this.#socket.close();
  }

  terminate(failure: RequestFailureReason | Error = 'closed'): void {
    this.#failure ??= failure instanceof Error ? failure : new RequestFailure(failure);
    this.#socket.terminate();
  }

  /** Opens the connection for `ws`, which therefore uses no agent and no proxy. */
  #connect(
    url: string,
    options: DirectSocketOptions,
    callback: (error: Error | null, socket: Duplex) => void,
  ): Duplex | undefined {
    const target = new URL(url);
    const forbiddenPart = findForbiddenPart(target, options);
    if (forbiddenPart !== null) {
      callback(new RequestFailure(forbiddenPart), new Socket());
      return undefined;
    }
    const { lookupOption, mayReceive } = options;
    const host = withoutBrackets(target.hostname);
    const usesTls = target.protocol === 'wss:';
    const port = Number(target.port) || (usesTls ? 443 : 80);
    const tcpOptions = { host, port, ...lookupOption };
    const serverNameOption = isIP(host) === 0 ? { servername: host } : {};
    const tlsOptions = { ...TLS_OPTIONS, ...serverNameOption, ALPNProtocols: ['http/1.1'] };
    if (mayReceive === undefined) {
      return usesTls ? connectTls({ ...tcpOptions, ...tlsOptions }) : connectTcp(tcpOptions);
    }
    let handshakeBytes = 0;
    let isInTlsHandshake = usesTls;
    const socket = new MeteredSocket(tcpOptions, (bytes) => {
      if (isInTlsHandshake) {
        handshakeBytes += bytes;
      }
      return handshakeBytes <= MAX_HANDSHAKE_BYTES && mayReceive(bytes);
    });
    if (!usesTls) {
      return socket;
    }
    // `host` is what Node compares with the certificate of an IP address.
    const tls = connectTls({ ...tlsOptions, host, socket });
    tls.once('secureConnect', () => {
      isInTlsHandshake = false;
      socket.limitTlsOverhead(tls);
    });
    return tls;
  }
}

/** Calls back after a timeout, but not before the messages that arrived in time were handled. */
export function setTimeoutAfterPendingIo(timeoutMs: number, callback: () => void): NodeJS.Timeout {
  // Timers run before I/O in a turn of the event loop, and `setImmediate` after it.
  return setTimeout(() => setImmediate(callback), timeoutMs).unref();
}
