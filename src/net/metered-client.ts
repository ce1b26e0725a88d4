import type { LookupFunction, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { MAX_HANDSHAKE_BYTES } from './limits.ts';
import { MeteredSocket } from './metered-socket.ts';

export interface MeteredRequest extends Dispatcher.DispatchOptions {
  /** Below TLS. */
  maxReceivedBytes: number;
}

interface MeteredClientOptions {
  connect: buildConnector.connector;
  lookup: { lookup?: LookupFunction };
  /** Called before bytes that the host sent are processed. */
  onBytes: (origin: string) => void;
}

/** One connection, which a pool uses for one request at a time. Limits the bytes that the host sends for each. */
export class MeteredClient extends Client {
  readonly #options: MeteredClientOptions;
  readonly #origin: string;
  #maxReceivedBytes = 0;
  /** How many more bytes the host may send. */
  #remainingBytes = 0;

  constructor(origin: string | URL, poolOptions: Client.Options, options: MeteredClientOptions) {
    super(origin, {
      ...poolOptions,
      connect: (target, callback) => this.#connect(target, callback),
    });
    this.#options = options;
    this.#origin = String(origin);
  }

  override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
    this.#maxReceivedBytes = (request as MeteredRequest).maxReceivedBytes;
    this.#remainingBytes = this.#maxReceivedBytes;
    return super.dispatch(request, handler);
  }

  #connect(target: buildConnector.Options, callback: buildConnector.Callback): void {
    const { connect, lookup, onBytes } = this.#options;
    const { protocol, hostname: host, port } = target;
    const isSecure = protocol === 'https:';
    const address = { host, port: Number(port || (isSecure ? 443 : 80)), ...lookup };
    const socket = new MeteredSocket(address, (bytes) => {
      onBytes(this.#origin);
      this.#remainingBytes -= bytes;
      return this.#remainingBytes >= 0;
    });
    if (isSecure) {
      this.#remainingBytes = MAX_HANDSHAKE_BYTES;
      connect({ ...target, httpSocket: socket as Duplex as Socket }, (...result) => {
        this.#remainingBytes = this.#maxReceivedBytes;
        const [, tls] = result;
        if (tls !== null) {
          socket.limitTlsBytes(tls as TLSSocket);
        }
        callback(...result);
      });
    } else {
      const onError = (error: Error) => callback(error, null);
      socket.once('error', onError);
      socket.once('connect', () => {
        socket.off('error', onError);
        callback(null, socket as Duplex as Socket);
      });
    }
  }
}
