import { connect, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { MAX_HANDSHAKE_BYTES, MAX_TLS_BYTES } from './limits.ts';
import { RequestFailure } from './request-failure.ts';

/** A TCP connection, below TLS. Counts what the host sends before a native library processes it. */
export class MeteredSocket extends Duplex {
  readonly #socket: Socket;
  readonly #startedAtMs = performance.now();
  #receivedBytes = 0;
  #tls: TLSSocket | null = null;

  /** @param receive called before bytes are processed. If it returns false, the connection is destroyed */
  constructor(options: TcpNetConnectOpts, receive: (bytes: number) => boolean) {
    super();
    this.#socket = connect({ ...options, noDelay: true });
    this.#socket.once('connect', () => this.emit('connect'));
    this.#socket.on('data', (chunk: Buffer) => {
      this.#receivedBytes += chunk.byteLength;
      if (!receive(chunk.byteLength) || this.#hasTooManyTlsBytes()) {
        this.destroy(new RequestFailure('response too large'));
      } else if (!this.push(chunk)) {
        this.#socket.pause();
      }
    });
    this.#socket.once('end', () => this.push(null));
    this.#socket.once('error', (error) => this.destroy(error));
    // Bytes that were not read yet are followed by the end.
    this.#socket.once('close', () => this.readableLength === 0 && this.destroy());
  }

  /** From now on, limits what the host sends besides the data of the TLS connection that uses this one. */
  limitTlsBytes(tls: TLSSocket): void {
    this.#tls = tls;
  }

  #hasTooManyTlsBytes(): boolean {
    if (this.#tls === null) {
      return false;
    }
    // A record for a short message takes 22 bytes, and one for a reply to a ping is longer than its data.
    const seconds = (performance.now() - this.#startedAtMs) / 1_000;
    const allowedBytes = this.#tls.bytesRead / 8 + seconds * 16;
    return this.#receivedBytes > MAX_TLS_BYTES + this.#tls.bytesRead + allowedBytes;
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: string, callback: (error?: Error | null) => void) {
    this.#socket.write(chunk, callback);
  }

  override _final(callback: () => void): void {
    this.#socket.end(callback);
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#socket.destroy();
    callback(error);
  }
}

export interface MeteredRequest extends Dispatcher.DispatchOptions {
  maxReceivedBytes: number;
}

interface MeteredClientOptions {
  connect: buildConnector.connector;
  lookup: { lookup?: LookupFunction };
  onBytes: (origin: string) => void;
}

/** One connection, which a pool uses for one request at a time. Limits the bytes that the host sends for each. */
export class MeteredClient extends Client {
  readonly #options: MeteredClientOptions;
  readonly #origin: string;
  #maxReceivedBytes = 0;
  #remainingBytes = 0;

  constructor(origin: string | URL, poolOptions: Client.Options, options: MeteredClientOptions) {
    super(origin, {
      ...poolOptions,
      connect: (target, callback) => this.#connect(target, callback),
    });
    this.#options = options;
    this.#origin = new URL(origin).origin;
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
