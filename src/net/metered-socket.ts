import { connect, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { MAX_HANDSHAKE_BYTES, MAX_TLS_OVERHEAD_BYTES } from './limits.ts';
import { RequestFailure } from './request-failure.ts';

/** A TCP connection below TLS. Counts the bytes that the host sends before a native library processes them. */
export class MeteredSocket extends Duplex {
  readonly #socket: Socket;
  readonly #startedAtMs = performance.now();
  #receivedBytes = 0;
  #tls: TLSSocket | null = null;

  /** @param mayReceive called before bytes are processed. If it returns false, the connection is destroyed */
  constructor(options: TcpNetConnectOpts, mayReceive: (bytes: number) => boolean) {
    super();
    this.#socket = connect({ ...options, noDelay: true });
    this.#socket.once('connect', () => this.emit('connect'));
    this.#socket.on('data', (chunk: Buffer) => {
      this.#receivedBytes += chunk.byteLength;
      if (!mayReceive(chunk.byteLength) || this.#hasTooMuchTlsOverhead()) {
        this.destroy(new RequestFailure('response too large'));
      } else if (!this.push(chunk)) {
        this.#socket.pause();
      }
    });
    this.#socket.once('end', () => this.push(null));
    this.#socket.once('error', (error) => this.destroy(error));
    // If bytes are still unread, the stream destroys itself after they were read.
    this.#socket.once('close', () => this.readableLength === 0 && this.destroy());
  }

  /** From now on, limits what the host sends in addition to the decrypted data of the TLS connection over this one. */
  limitTlsOverhead(tls: TLSSocket): void {
    this.#tls = tls;
  }

  #hasTooMuchTlsOverhead(): boolean {
    if (this.#tls === null) {
      return false;
    }
    const decryptedBytes = this.#tls.bytesRead;
    const overheadBytes = this.#receivedBytes - decryptedBytes;
    // TLS adds 22 bytes to a short message. The record of a reply to a ping is longer than its data.
    const messageOverhead = decryptedBytes / 8;
    const pongOverhead = ((performance.now() - this.#startedAtMs) / 1_000) * 16;
    return overheadBytes > MAX_TLS_OVERHEAD_BYTES + messageOverhead + pongOverhead;
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
  lookupOption: { lookup?: LookupFunction };
  /** Called before bytes of the host are processed. */
  onBytes: (origin: string) => void;
}

/** A connection that a pool uses for one request at a time. Limits the bytes that the host sends for each request. */
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
    const { connect, lookupOption, onBytes } = this.#options;
    const { protocol, hostname: host } = target;
    const usesTls = protocol === 'https:';
    const port = Number(target.port || (usesTls ? 443 : 80));
    const socket = new MeteredSocket({ host, port, ...lookupOption }, (bytes) => {
      onBytes(this.#origin);
      this.#remainingBytes -= bytes;
      return this.#remainingBytes >= 0;
    });
    if (usesTls) {
      // The handshake has its own limit. After it, the limit of the request applies.
      this.#remainingBytes = MAX_HANDSHAKE_BYTES;
      connect({ ...target, httpSocket: socket as Duplex as Socket }, (...errorAndSocket) => {
        this.#remainingBytes = this.#maxReceivedBytes;
        const [, tls] = errorAndSocket;
        if (tls !== null) {
          socket.limitTlsOverhead(tls as TLSSocket);
        }
        callback(...errorAndSocket);
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
