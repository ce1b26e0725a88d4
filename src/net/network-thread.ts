import { EventEmitter } from 'node:events';
import { Worker } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import { computeBackoffMs } from '../backoff.ts';
import { createWorkerEnvironment } from '../worker-environment.ts';
import type { GuardedSocket, GuardedSocketEvents } from './guarded-websocket.ts';
import {
  type HttpRequest,
  type HttpResponse,
  type HttpSender,
  unsentResponse,
} from './http-client.ts';
import {
  type FetchLimits,
  HEARTBEAT_INTERVAL_MS,
  SUSPENSION_BACKOFF,
  SUSPENSION_TTL_MS,
} from './limits.ts';
import {
  NETWORK_THREAD_FILE,
  type NetworkThreadOptions,
  type NetworkThreadReply,
  type NetworkThreadRequest,
  NetworkThreadStatus,
} from './network-thread-worker.ts';
import { getSite } from './site.ts';

interface NetworkThreadContext {
  allowPrivateNetworks: boolean;
  limits: FetchLimits;
  monotonicMs: () => number;
  onStopped: (stop: NetworkThreadStop) => void;
}

export interface NetworkThreadStop {
  /** The site that the thread was busy with; null if it was idle, or did not start. */
  site: string | null;
  /** How long requests to the site are rejected; 0 without a site. */
  suspendedMs: number;
  error: unknown;
}

/**
 * Connects to untrusted hosts in a worker thread, because native libraries do work for them that no limit in JavaScript
 * can bound (TLS handshakes, for example). If the thread dies or stays blocked, its connections are lost, the site that it
 * was busy with is suspended, and the next request starts a new thread.
 */
export class NetworkThread {
  readonly #context: NetworkThreadContext;
  #running: { worker: Worker; heartbeatTimer: NodeJS.Timeout } | null = null;
  #lastId = 0;
  #isClosed = false;
  readonly #requests = new Map<
    number,
    { clientId: number; resolve: (response: HttpResponse) => void }
  >();
  readonly #sockets = new Map<number, ThreadSocket>();
  readonly #suspensions: LRUCache<string, { count: number; untilMs: number }>;

  constructor(context: NetworkThreadContext) {
    this.#context = context;
    this.#suspensions = new LRUCache({
      max: 10_000,
      ttl: SUSPENSION_TTL_MS,
      perf: { now: context.monotonicMs },
    });
  }

  createHttpClient(): HttpSender {
    const clientId = this.#createId();
    let isClosed = false;
    return {
      request: async (request) =>
        isClosed ? unsentResponse('closed') : this.#request(clientId, request),
      close: async () => {
        isClosed = true;
        for (const [id, request] of this.#requests) {
          if (request.clientId === clientId) {
            this.#endRequest(id, { outcome: 'unreachable', reason: 'closed' });
          }
        }
      },
    };
  }

  connect(url: string): GuardedSocket {
    const id = this.#createId();
    const socket = new ThreadSocket((command) => {
      if (this.#sockets.has(id)) {
        this.#post({ ...command, id });
      }
    });
    const reason = this.#findRejection(url);
    if (reason === null) {
      this.#sockets.set(id, socket);
      this.#post({ kind: 'connect', id, url, site: getSite(url) });
    } else {
      // Later, because the caller has no listener yet.
      setImmediate(() => socket.handle({ kind: 'close', id, details: { reason, status: null } }));
    }
    return socket;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#stop();
  }

  #createId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  async #request(clientId: number, request: HttpRequest): Promise<HttpResponse> {
    const reason = this.#findRejection(request.url);
    if (reason !== null) {
      return unsentResponse(reason);
    }
    const id = this.#createId();
    const { promise, resolve } = Promise.withResolvers<HttpResponse>();
    this.#requests.set(id, { clientId, resolve });
    this.#post({ kind: 'request', id, clientId, request });
    return promise;
  }

  #post(message: NetworkThreadRequest): void {
    try {
      this.#running ??= this.#start();
      this.#running.worker.postMessage(message);
    } catch (error) {
      // The operating system may not allow another thread. A caller of `connect` has no listener for `close` yet.
      setImmediate(() => this.#abandon(null, error));
    }
  }

  #start() {
    const { allowPrivateNetworks, limits } = this.#context;
    const status = new NetworkThreadStatus();
    const statusMemory = status.memory;
    const worker = new Worker(NETWORK_THREAD_FILE, {
      workerData: { allowPrivateNetworks, limits, statusMemory } satisfies NetworkThreadOptions,
      env: createWorkerEnvironment(),
      // Honest responses need a few MB. These limits do not include buffers.
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 },
    });
    worker.on('message', (batch: NetworkThreadReply[]) => {
      for (const reply of batch) {
        if (this.#running?.worker === worker) {
          this.#handleReply(reply);
        }
      }
      // Handles requests of clients before it asks for the next batch.
      setImmediate(() => worker.postMessage({ kind: 'next' } satisfies NetworkThreadRequest));
    });
    const abandon = (error: unknown) => {
      if (this.#running?.worker === worker) {
        this.#abandon(status.busyOrigin, error);
      }
    };
    worker.once('error', abandon);
    worker.once('messageerror', abandon);
    worker.once('exit', () => abandon(new Error('network thread exited')));
    let lastHeartbeats = 0;
    let missedHeartbeats = 0;
    // Counts intervals instead of time, because the time that a suspended machine sleeps is not the thread's fault.
    const heartbeatTimer = setInterval(() => {
      const { heartbeats } = status;
      missedHeartbeats = heartbeats === lastHeartbeats ? missedHeartbeats + 1 : 0;
      lastHeartbeats = heartbeats;
      // Two seconds, or ten until the thread has started.
      const maxMissedHeartbeats = heartbeats === 0 ? 40 : 8;
      if (missedHeartbeats >= maxMissedHeartbeats) {
        abandon(new Error('network thread records no heartbeat'));
      }
    }, HEARTBEAT_INTERVAL_MS).unref();
    return { worker, heartbeatTimer };
  }

  #abandon(busyOrigin: string | null, error: unknown): void {
    const site = busyOrigin === null ? null : getSite(busyOrigin);
    const suspendedMs = site === null ? 0 : this.#suspend(site);
    this.#context.onStopped({ site, suspendedMs, error });
    void this.#stop();
  }

  async #stop(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    clearInterval(running?.heartbeatTimer);
    for (const id of this.#requests.keys()) {
      this.#endRequest(id, { outcome: 'unreachable', reason: 'timed out' });
    }
    for (const [id, { state }] of [...this.#sockets]) {
      const reason = state === 'connecting' ? 'timed out' : 'connection lost';
      this.#handleReply({ kind: 'close', id, details: { reason, status: null } });
    }
    await running?.worker.terminate();
  }

  #endRequest(id: number, response: HttpResponse): void {
    this.#requests.get(id)?.resolve(response);
    this.#requests.delete(id);
  }

  #handleReply(reply: NetworkThreadReply): void {
    if (reply.kind === 'response') {
      this.#endRequest(reply.id, reply.response);
      return;
    }
    const socket = this.#sockets.get(reply.id);
    if (reply.kind === 'close') {
      this.#sockets.delete(reply.id);
    }
    socket?.handle(reply);
  }

  #suspend(site: string): number {
    const count = (this.#suspensions.get(site)?.count ?? 0) + 1;
    const suspendedMs = computeBackoffMs(count, SUSPENSION_BACKOFF);
    this.#suspensions.set(site, { count, untilMs: this.#context.monotonicMs() + suspendedMs });
    return suspendedMs;
  }

  #findRejection(url: string): 'closed' | 'site suspended' | null {
    if (this.#isClosed) {
      return 'closed';
    }
    const suspension = this.#suspensions.get(getSite(url));
    const isSuspended = suspension && this.#context.monotonicMs() < suspension.untilMs;
    return isSuspended ? 'site suspended' : null;
  }
}

type SocketCommand = { kind: 'send'; text: string } | { kind: 'ping' | 'close' | 'terminate' };

/** A WebSocket of the network thread. The state is not checked here, because the thread ignores what is too early or late. */
class ThreadSocket extends EventEmitter<GuardedSocketEvents> implements GuardedSocket {
  state: GuardedSocket['state'] = 'connecting';
  readonly #post: (command: SocketCommand) => void;

  constructor(post: (command: SocketCommand) => void) {
    super();
    this.#post = post;
  }

  send(text: string): void {
    this.#post({ kind: 'send', text });
  }

  ping(): void {
    this.#post({ kind: 'ping' });
  }

  close(): void {
    this.state = 'closed';
    this.#post({ kind: 'close' });
  }

  terminate(): void {
    this.state = 'closed';
    this.#post({ kind: 'terminate' });
  }

  handle(reply: Exclude<NetworkThreadReply, { kind: 'response' }>): void {
    if (reply.kind === 'close') {
      this.state = 'closed';
      this.emit('close', reply.details);
    } else if (reply.kind === 'open' && this.state === 'connecting') {
      this.state = 'open';
      this.emit('open');
    } else if (reply.kind === 'message' && this.state === 'open') {
      this.emit('message', reply.text);
    } else if (reply.kind === 'pong') {
      this.emit('pong');
    }
  }
}
