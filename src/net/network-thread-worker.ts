import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import {
  type CloseReason,
  createGuardedWebSocketConnector,
  type GuardedSocket,
} from './guarded-websocket.ts';
import { HttpClient, type HttpRequest, type HttpResponse } from './http-client.ts';
import {
  BYTES_PER_MESSAGE,
  type FetchLimits,
  HEARTBEAT_INTERVAL_MS,
  MAX_JSON_DEPTH,
  MAX_QUEUED_REPLY_BYTES,
  MAX_REPLY_BATCH_BYTES,
  SITE_BURST_BYTES,
  SITE_BYTES_PER_SECOND,
} from './limits.ts';

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

/** From the network thread, which serves hosts that the operator did not name: a response, or an event of a socket. */
export type NetworkThreadReply =
  | { kind: 'response'; id: number; response: HttpResponse }
  | { kind: 'open' | 'pong'; id: number }
  | { kind: 'message'; id: number; text: string }
  | { kind: 'close'; id: number; reason: CloseReason };

function runNetworkThread(port: MessagePort, options: NetworkThreadOptions): void {
  const { allowPrivateNetworks, limits } = options;
  const status = new NetworkThreadStatus(options.statusMemory);
  const clients = new Map<number, HttpClient>();
  const connect = createGuardedWebSocketConnector({ allowPrivateNetworks });
  const sockets = new Map<number, GuardedSocket>();
  // By site. More than the sites that have WebSockets at a time.
  const buckets = new LRUCache<string, ByteBucket>({
    max: 1_000,
    memoMethod: () => new ByteBucket(),
  });
  const replies = new ReplyQueue(port);

  function openSocket(id: number, url: string, site: string): GuardedSocket {
    const bucket = buckets.memo(site);
    const { origin } = new URL(url);
    status.recordOrigin(origin);
    const socket = connect(url, (bytes) => {
      status.recordOrigin(origin);
      // False closes the socket.
      return bucket.take(bytes);
    });
    const forward = (reply: NetworkThreadReply) => {
      if (replies.queuedBytes < MAX_QUEUED_REPLY_BYTES) {
        replies.push(reply);
      } else {
        socket.terminate();
      }
    };
    socket.once('open', () => replies.push({ kind: 'open', id }));
    socket.on('message', (text) => forward({ kind: 'message', id, text }));
    socket.on('pong', () => forward({ kind: 'pong', id }));
    socket.once('close', (reason) => {
      sockets.delete(id);
      replies.push({ kind: 'close', id, reason });
    });
    return socket;
  }

  status.recordHeartbeat();
  setInterval(() => status.recordHeartbeat(), HEARTBEAT_INTERVAL_MS);

  port.on('message', (message: NetworkThreadRequest) => {
    if (message.kind === 'next') {
      replies.sendBatch();
      return;
    }
    const { kind, id } = message;
    if (kind === 'request') {
      status.recordOrigin(new URL(message.request.url).origin);
      const client = clients.getOrInsertComputed(
        message.clientId,
        () =>
          new HttpClient({ allowPrivateNetworks }, limits, (origin) => status.recordOrigin(origin)),
      );
      void client
        .request(message.request)
        .then((response) =>
          replies.push({ kind: 'response', id, response: withoutDeepJson(response) }),
        );
    } else if (kind === 'connect') {
      sockets.set(id, openSocket(id, message.url, message.site));
    } else if (kind === 'send') {
      sockets.get(id)?.send(message.text);
    } else {
      sockets.get(id)?.[kind]();
    }
  });
}

/** The main thread can read this memory while the network thread is blocked. */
export class NetworkThreadStatus {
  readonly memory: SharedArrayBuffer;
  readonly #counters: Int32Array;
  readonly #origin: Buffer;

  constructor(memory = new SharedArrayBuffer(8 + 512)) {
    this.memory = memory;
    this.#counters = new Int32Array(memory, 0, 2);
    this.#origin = Buffer.from(memory, 8);
  }

  get heartbeats(): number {
    return Atomics.load(this.#counters, 0);
  }

  recordHeartbeat(): void {
    this.recordOrigin('');
    Atomics.add(this.#counters, 0, 1);
  }

  /** Null if the network thread has been idle since the last heartbeat. */
  get busyOrigin(): string | null {
    const length = Atomics.load(this.#counters, 1);
    return length === 0 ? null : this.#origin.toString('utf8', 0, length);
  }

  /** Must be called before a step that may block because of the origin. */
  recordOrigin(origin: string): void {
    Atomics.store(this.#counters, 1, this.#origin.write(origin));
  }
}

function withoutDeepJson(response: HttpResponse): HttpResponse {
  return response.outcome === 'responded' && isDeeperThan(MAX_JSON_DEPTH, response.json)
    ? { ...response, json: undefined }
    : response;
}

function isDeeperThan(depth: number, value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    (depth === 0 || Object.values(value).some((each) => isDeeperThan(depth - 1, each)))
  );
}

/** Sends a batch when the main thread has handled the previous one. Node would handle all in one turn of the loop. */
class ReplyQueue {
  /** Without responses, whose number is limited otherwise. */
  queuedBytes = 0;
  readonly #port: MessagePort;
  readonly #queue: NetworkThreadReply[] = [];
  #isMainThreadReady = true;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  push(reply: NetworkThreadReply): void {
    this.#queue.push(reply);
    this.queuedBytes += countMessageBytes(reply);
    if (this.#isMainThreadReady) {
      this.sendBatch();
    }
  }

  sendBatch(): void {
    const batch: NetworkThreadReply[] = [];
    let batchBytes = 0;
    while (this.#queue.length > 0 && batchBytes < MAX_REPLY_BATCH_BYTES) {
      const reply = this.#queue.shift() as NetworkThreadReply;
      batch.push(reply);
      // A response has up to 16,000 elements of JSON, so it fills a batch.
      batchBytes += reply.kind === 'response' ? MAX_REPLY_BATCH_BYTES : countMessageBytes(reply);
      this.queuedBytes -= countMessageBytes(reply);
    }
    this.#isMainThreadReady = batch.length === 0;
    if (batch.length > 0) {
      this.#port.postMessage(batch);
    }
  }
}

function countMessageBytes(reply: NetworkThreadReply): number {
  const textBytes = reply.kind === 'message' ? reply.text.length : 0;
  return reply.kind === 'response' ? 0 : BYTES_PER_MESSAGE + textBytes;
}

class ByteBucket {
  #bytes = SITE_BURST_BYTES;
  #filledAtMs = performance.now();

  take(bytes: number): boolean {
    const nowMs = performance.now();
    const filledBytes = ((nowMs - this.#filledAtMs) * SITE_BYTES_PER_SECOND) / 1_000;
    this.#bytes = Math.min(this.#bytes + filledBytes, SITE_BURST_BYTES);
    this.#filledAtMs = nowMs;
    const isEnough = bytes <= this.#bytes;
    this.#bytes -= isEnough ? bytes : 0;
    return isEnough;
  }
}

/** The main thread imports this file too, so that Node's compile cache contains it. */
export const NETWORK_THREAD_FILE = new URL(import.meta.url);

const options = workerData as Partial<NetworkThreadOptions> | null;
if (parentPort !== null && options?.statusMemory !== undefined) {
  runNetworkThread(parentPort, options as NetworkThreadOptions);
}
