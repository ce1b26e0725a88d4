import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import {
  type CloseDetails,
  createGuardedWebSocketConnector,
  type GuardedSocket,
} from './guarded-websocket.ts';
import { HttpClient, type HttpRequest, type HttpResponse } from './http-client.ts';
import {
  BYTES_PER_MESSAGE,
  type FetchLimits,
  HEARTBEAT_INTERVAL_MS,
  MAX_JSON_DEPTH,
  MAX_QUEUED_MESSAGE_BYTES,
  MAX_REPLY_BATCH_BYTES,
  SITE_BURST_BYTES,
  SITE_BYTES_PER_SECOND,
} from './limits.ts';

export interface NetworkThreadOptions {
  allowPrivateNetworks: boolean;
  limits: FetchLimits;
  statusMemory: SharedArrayBuffer;
}

/** From the main thread to the network thread. `id` identifies a request or a WebSocket. */
export type NetworkThreadRequest =
  | { kind: 'request'; id: number; clientId: number; request: HttpRequest }
  | { kind: 'connect'; id: number; url: string; site: string }
  | { kind: 'send'; id: number; text: string }
  | { kind: 'ping' | 'close' | 'terminate'; id: number }
  /** The main thread is ready for the next batch of replies. */
  | { kind: 'next' };

/** From the network thread to the main thread: the response to a request, or an event of a WebSocket. */
export type NetworkThreadReply =
  | { kind: 'response'; id: number; response: HttpResponse }
  | { kind: 'open' | 'pong'; id: number }
  | { kind: 'message'; id: number; text: string }
  | { kind: 'close'; id: number; details: CloseDetails };

/** Makes the connections to hosts that the operator did not name, for the main thread. */
function runNetworkThread(port: MessagePort, options: NetworkThreadOptions): void {
  const { allowPrivateNetworks, limits } = options;
  const status = new NetworkThreadStatus(options.statusMemory);
  const onBytes = (origin: string) => status.recordOrigin(origin);
  const createClient = () => new HttpClient({ allowPrivateNetworks }, limits, onBytes);
  const clients = new Map<number, HttpClient>();
  const connect = createGuardedWebSocketConnector({ allowPrivateNetworks });
  const sockets = new Map<number, GuardedSocket>();
  // The limit exceeds the number of sites that have WebSockets at a time.
  const bucketsBySite = new LRUCache<string, ByteBucket>({
    max: 1_000,
    memoMethod: () => new ByteBucket(),
  });
  const replies = new ReplyQueue(port);

  function openSocket(id: number, url: string, site: string): GuardedSocket {
    const bucket = bucketsBySite.memo(site);
    const { origin } = new URL(url);
    status.recordOrigin(origin);
    const socket = connect(url, (bytes) => {
      status.recordOrigin(origin);
      return bucket.tryTake(bytes);
    });
    const forward = (reply: NetworkThreadReply) => {
      if (replies.queuedMessageBytes < MAX_QUEUED_MESSAGE_BYTES) {
        replies.push(reply);
      } else {
        socket.terminate();
      }
    };
    socket.once('open', () => replies.push({ kind: 'open', id }));
    socket.on('message', (text) => forward({ kind: 'message', id, text }));
    socket.on('pong', () => forward({ kind: 'pong', id }));
    socket.once('close', (details) => {
      sockets.delete(id);
      replies.push({ kind: 'close', id, details });
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
      const client = clients.getOrInsertComputed(message.clientId, createClient);
      void client.request(message.request).then((response) => {
        replies.push({ kind: 'response', id, response: withoutDeepJson(response) });
      });
    } else if (kind === 'connect') {
      sockets.set(id, openSocket(id, message.url, message.site));
    } else if (kind === 'send') {
      sockets.get(id)?.send(message.text);
    } else {
      // `kind` is the method: `ping`, `close` or `terminate`.
      sockets.get(id)?.[kind]();
    }
  });
}

/** What the network thread is doing, in shared memory: the main thread can read it while the network thread is blocked. */
export class NetworkThreadStatus {
  readonly memory: SharedArrayBuffer;
  readonly #heartbeats: Int32Array;
  readonly #originLength: Int32Array;
  readonly #origin: Buffer;

  constructor(memory = new SharedArrayBuffer(4 + 4 + 512)) {
    this.memory = memory;
    this.#heartbeats = new Int32Array(memory, 0, 1);
    this.#originLength = new Int32Array(memory, 4, 1);
    this.#origin = Buffer.from(memory, 8);
  }

  get heartbeats(): number {
    return Atomics.load(this.#heartbeats, 0);
  }

  recordHeartbeat(): void {
    this.recordOrigin('');
    Atomics.add(this.#heartbeats, 0, 1);
  }

  /** Null if the network thread has been idle since the last heartbeat. */
  get busyOrigin(): string | null {
    const length = Atomics.load(this.#originLength, 0);
    return length === 0 ? null : this.#origin.toString('utf8', 0, length);
  }

  /** Must be called before a step that may block because of the origin. */
  recordOrigin(origin: string): void {
    Atomics.store(this.#originLength, 0, this.#origin.write(origin));
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
    (depth === 0 || Object.values(value).some((child) => isDeeperThan(depth - 1, child)))
  );
}

/** Sends the next batch when the main thread has handled the last one, because Node handles all messages in one turn. */
class ReplyQueue {
  /** Does not count responses, because the number of requests is limited. */
  queuedMessageBytes = 0;
  readonly #port: MessagePort;
  readonly #queue: NetworkThreadReply[] = [];
  #isMainThreadReady = true;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  push(reply: NetworkThreadReply): void {
    this.#queue.push(reply);
    this.queuedMessageBytes += countMessageBytes(reply);
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
      // A response fills a batch, because it has up to 16,000 elements of JSON.
      batchBytes += reply.kind === 'response' ? MAX_REPLY_BATCH_BYTES : countMessageBytes(reply);
      this.queuedMessageBytes -= countMessageBytes(reply);
    }
    this.#isMainThreadReady = batch.length === 0;
    if (batch.length > 0) {
      this.#port.postMessage(batch);
    }
  }
}

function countMessageBytes(reply: NetworkThreadReply): number {
  if (reply.kind === 'response') {
    return 0;
  }
  return BYTES_PER_MESSAGE + (reply.kind === 'message' ? reply.text.length : 0);
}

/** A token bucket. */
class ByteBucket {
  #availableBytes = SITE_BURST_BYTES;
  #refilledAtMs = performance.now();

  tryTake(bytes: number): boolean {
    const nowMs = performance.now();
    const refillBytes = ((nowMs - this.#refilledAtMs) * SITE_BYTES_PER_SECOND) / 1_000;
    this.#availableBytes = Math.min(this.#availableBytes + refillBytes, SITE_BURST_BYTES);
    this.#refilledAtMs = nowMs;
    if (bytes > this.#availableBytes) {
      return false;
    }
    this.#availableBytes -= bytes;
    return true;
  }
}

export const NETWORK_THREAD_FILE = new URL(import.meta.url);

// The main thread imports this file, too, so that Node's compile cache contains it. There, nothing runs.
const options = workerData as Partial<NetworkThreadOptions> | null;
if (parentPort !== null && options?.statusMemory !== undefined) {
  runNetworkThread(parentPort, options as NetworkThreadOptions);
}
