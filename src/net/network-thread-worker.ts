import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import { createGuardedWebSocketConnector, type GuardedSocket } from './guarded-websocket.ts';
import { HttpClient, type HttpResponse } from './http-client.ts';
import {
  BYTES_PER_MESSAGE,
  HEARTBEAT_INTERVAL_MS,
  MAX_JSON_DEPTH,
  MAX_QUEUED_REPLY_BYTES,
  MAX_REPLY_BATCH_BYTES,
  MAX_WEBSOCKET_SITES,
  SITE_BURST_BYTES,
  SITE_BYTES_PER_SECOND,
} from './limits.ts';
import {
  type NetworkThreadOptions,
  type NetworkThreadReply,
  type NetworkThreadRequest,
  NetworkThreadStatus,
} from './network-thread-messages.ts';

function runNetworkThread(port: MessagePort, options: NetworkThreadOptions): void {
  const { allowPrivateNetworks, limits } = options;
  const status = new NetworkThreadStatus(options.statusMemory);
  const clients = new Map<number, HttpClient>();
  const connect = createGuardedWebSocketConnector({ allowPrivateNetworks });
  const sockets = new Map<number, GuardedSocket>();
  const buckets = new LRUCache<string, ByteBucket>({ max: MAX_WEBSOCKET_SITES });
  const replies = new ReplyQueue(port);

  function getClient(id: number): HttpClient {
    let client = clients.get(id);
    if (client === undefined) {
      client = new HttpClient({ allowPrivateNetworks }, limits, (origin) =>
        status.recordOrigin(origin),
      );
      clients.set(id, client);
    }
    return client;
  }

  function openSocket(id: number, url: string, site: string): GuardedSocket {
    const bucket = buckets.get(site) ?? new ByteBucket();
    buckets.set(site, bucket);
    const { origin } = new URL(url);
    status.recordOrigin(origin);
    const socket = connect(url, (bytes) => {
      status.recordOrigin(origin);
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
      const pending = getClient(message.clientId).request(message.request);
      void pending.then((response) =>
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

/**
 * Sends replies in batches. Each follows when the main thread has handled the previous one, because Node would handle all
 * that wait in one turn of the event loop.
 */
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
