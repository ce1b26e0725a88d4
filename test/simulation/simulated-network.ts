import { EventEmitter } from 'node:events';
import type { InjectOptions } from 'fastify';
import type { WebSocket } from 'ws';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { Egress } from '../../src/net/egress.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import type {
  CloseDetails,
  GuardedSocket,
  GuardedSocketEvents,
} from '../../src/net/guarded-websocket.ts';
import type { HttpRequest, HttpResponse, HttpSender } from '../../src/net/http-client.ts';
import { tryParseJson } from '../../src/untrusted-text.ts';
import type { FaultPlan } from './faults.ts';
import type { History } from './history.ts';
import { getDeadlineMs } from './promises.ts';
import { type Actor, currentActor, never, type Scheduler, WORLD } from './scheduler.ts';
import type { ServiceInstance } from './service-instance.ts';

/** A mint, a relay or a shop. */
export interface SimulatedHost {
  readonly actor: Actor;
  /** Null: never responds. */
  handleRequest(
    method: string,
    path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<HostResponse | null>;
  /** @returns the status that rejects the handshake; null: the socket is open */
  acceptSocket(socket: HostSocket): number | null;
}

export interface HostResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
}

interface NetworkContext {
  scheduler: Scheduler;
  random: SeededRandom;
  faults: FaultPlan;
  history: History;
}

/** Carries all requests and WebSocket messages. Loses, delays and repeats some of them. */
export class SimulatedNetwork {
  readonly #context: NetworkContext;
  readonly #hosts = new Map<string, SimulatedHost>();
  readonly openSockets = new Set<HostSocket>();
  /** Who sent each. */
  readonly requestsInFlight = new Map<HttpRequest, Actor>();
  /** Called before the service sends a request, or a WebSocket message. */
  onSend: (actor: Actor, url: string, text: string) => void = () => {};

  constructor(context: NetworkContext) {
    this.#context = context;
  }

  /** @param host `mint-1.example` */
  addHost(host: string, server: SimulatedHost): void {
    this.#hosts.set(host, server);
  }

  /** The service's way to mints, relays and shops: its real limits, with a simulated client below. */
  createEgress(actor: Actor): Egress {
    const client: HttpSender = {
      request: (request) => this.#request(request, actor),
      close: async () => undefined,
    };
    return {
      connect: (url) => this.#connect(url, actor),
      createFetch: () => new GuardedFetch({ allowPrivateNetworks: false, operatorClient: client }),
      close: async () => undefined,
    };
  }

  async #request(request: HttpRequest, actor: Actor): Promise<HttpResponse> {
    const { scheduler, faults } = this.#context;
    if (!actor.isAlive) {
      return never();
    }
    const { promise, resolve } = Promise.withResolvers<HttpResponse>();
    const deadline = scheduler.schedule(request.timeoutMs, () =>
      resolve({ outcome: 'unreachable', reason: 'timed out' }),
    );
    const forget = actor.onDeath(() => this.requestsInFlight.delete(request));
    this.onSend(actor, request.url, String(request.body ?? ''));
    this.requestsInFlight.set(request, actor);
    this.#send(request, actor, resolve);
    faults.recordStep('sends a request', actor);
    const response = await promise;
    faults.recordStep('receives a response', actor);
    forget();
    this.requestsInFlight.delete(request);
    scheduler.cancel(deadline);
    return response;
  }

  #send(request: HttpRequest, actor: Actor, respond: (response: HttpResponse) => void): void {
    const { scheduler, faults, history } = this.#context;
    const url = new URL(request.url);
    const host = this.#hosts.get(url.host);
    const method = request.body === null ? 'GET' : 'POST';
    const label = `${method} ${url.host}${url.pathname}`;
    const delayMs = () => this.#delayMs(url.host);
    if (host === undefined || !host.actor.isAlive) {
      const refused = {
        outcome: 'unreachable',
        reason: 'connection refused',
        isUnsent: true,
      } as const;
      scheduler.schedule(delayMs(), () => respond(refused));
      return;
    }
    const lost = () => respond({ outcome: 'unreachable', reason: 'connection lost' });
    if (faults.choose('lost requests', 0.02, url.host)) {
      history.add(actor, () => `${label} is lost`);
      scheduler.schedule(delayMs(), lost);
      return;
    }
    const handle = async (isRepeated: boolean) => {
      const { body, headers = {} } = request;
      const response = await host.handleRequest(method, url.pathname, String(body ?? ''), headers);
      if (isRepeated || response === null) {
        return;
      }
      if (faults.choose('lost answers', 0.02, url.host)) {
        history.add(actor, () => `the answer to ${label} is lost`);
        scheduler.schedule(delayMs(), lost, actor);
        return;
      }
      const answer = toHttpResponse(response);
      history.add(host.actor, () => `${label} -> ${response.status} ${response.body}`);
      scheduler.schedule(delayMs(), () => respond(answer), actor);
    };
    const copies = faults.choose('repeated requests', 0.01, url.host) ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      scheduler.schedule(delayMs(), () => void handle(copy > 0), host.actor);
    }
  }

  #connect(url: string, actor: Actor): GuardedSocket {
    const { scheduler, faults } = this.#context;
    const { host: hostName } = new URL(url);
    const host = this.#hosts.get(hostName);
    const socket = new HostSocket(this.#context, actor, host?.actor ?? WORLD, hostName);
    socket.onReceive = (text) => this.onSend(actor, url, text);
    const isRefused = host === undefined || !host.actor.isAlive;
    if (isRefused || faults.choose('refused sockets', 0.1, hostName)) {
      scheduler.schedule(this.#delayMs(hostName), () => socket.refuse());
      return socket.client;
    }
    const accept = () => {
      // The process may have died, or given up.
      if (socket.isClosed) {
        return;
      }
      const status = host.acceptSocket(socket);
      if (status !== null) {
        socket.disconnect({ reason: 'handshake rejected', status });
        return;
      }
      this.openSockets.add(socket);
      socket.once('close', () => this.openSockets.delete(socket));
      socket.open();
    };
    scheduler.schedule(this.#delayMs(hostName), accept, host.actor);
    const giveUp = () => socket.client.state === 'connecting' && socket.client.close();
    const deadline = scheduler.schedule(10_000, giveUp, actor);
    socket.client.once('open', () => scheduler.cancel(deadline));
    return socket.client;
  }

  #delayMs(hostName: string): number {
    const { random, faults } = this.#context;
    return faults.choose('late requests', 0.02, hostName)
      ? random.exponential(4_000)
      : random.between(0.5, 20);
  }
}

function toHttpResponse({ status, headers, body }: HostResponse): HttpResponse {
  const json = tryParseJson(body);
  const text = typeof json === 'object' ? '' : body;
  return { outcome: 'responded', status, headers: new Map(Object.entries(headers)), json, text };
}

/** The host's end of a WebSocket from the service. Emits `message`, `close`. */
export class HostSocket extends EventEmitter<{ message: [string]; close: []; error: [Error] }> {
  readonly client: ServiceSocket;
  onReceive: (text: string) => void = () => {};
  readonly #context: NetworkContext;
  readonly serviceActor: Actor;
  readonly #hostActor: Actor;
  readonly hostName: string;
  #isClosed = false;
  /** The network has forgotten the connection, and neither end knows. */
  isSilent = false;
  openedAtMs = Number.POSITIVE_INFINITY;
  #toServiceAtMs = 0;
  #toHostAtMs = 0;

  constructor(context: NetworkContext, serviceActor: Actor, hostActor: Actor, hostName: string) {
    super();
    this.#context = context;
    this.serviceActor = serviceActor;
    this.#hostActor = hostActor;
    this.hostName = hostName;
    this.client = new ServiceSocket(this);
    const forgetService = serviceActor.onDeath(() => this.#closeHostEnd());
    const forgetHost = hostActor.onDeath(() => this.terminate());
    this.once('close', () => {
      forgetService();
      forgetHost();
    });
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  open(): void {
    this.openedAtMs = this.#context.scheduler.nowMs;
    this.#toService(() => this.client.handleOpen());
  }

  /** To the service. */
  send(text: string): void {
    const { history, faults } = this.#context;
    this.#toService(() => {
      faults.recordStep('receives a message', this.serviceActor);
      if (/"PAID"|"amount_paid":[1-9]/.test(text)) {
        faults.recordStep('learns of a payment', this.serviceActor);
      }
      history.add(this.serviceActor, () => `receives from ${this.hostName}: ${text}`);
      this.client.handleMessage(text);
    });
  }

  refuse(): void {
    this.client.end({ reason: 'connection refused', status: null });
    this.#closeHostEnd();
  }

  terminate(): void {
    this.disconnect({ reason: 'connection lost', status: null });
  }

  close(): void {
    this.terminate();
  }

  /** Closes both ends. Each learns of it after a while. */
  disconnect(details: CloseDetails): void {
    this.#closeHostEnd();
    this.#toService(() => this.client.end(details));
  }

  receive(text: string): void {
    this.onReceive(text);
    this.#toHost(() => this.emit('message', text));
  }

  ping(): void {
    this.#toHost(() => this.#toService(() => this.client.handlePong()));
  }

  closedByService(): void {
    const { scheduler, random } = this.#context;
    scheduler.schedule(random.between(1, 20), () =>
      this.client.end({ reason: 'connection lost', status: null }),
    );
    this.#closeHostEnd();
  }

  #closeHostEnd(): void {
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#context.scheduler.schedule(1, () => this.emit('close'), WORLD);
    }
  }

  #toService(deliver: () => void): void {
    this.#maybeBreak();
    this.#toServiceAtMs = this.#send(this.#toServiceAtMs, this.serviceActor, deliver);
  }

  #toHost(deliver: () => void): void {
    this.#maybeBreak();
    this.#toHostAtMs = this.#send(this.#toHostAtMs, this.#hostActor, () => {
      if (!this.#isClosed) {
        deliver();
      }
    });
  }

  /** A TCP connection keeps the order, so a late message delays those behind it. */
  #send(earliestMs: number, receiver: Actor, deliver: () => void): number {
    const { scheduler, random, faults } = this.#context;
    const isLate = faults.choose('late requests', 0.01, this.hostName);
    const delayMs = isLate ? random.exponential(4_000) : random.between(0.5, 20);
    const arrivesAtMs = Math.max(earliestMs, scheduler.nowMs + delayMs);
    if (!this.isSilent) {
      scheduler.schedule(arrivesAtMs - scheduler.nowMs, deliver, receiver);
    }
    return arrivesAtMs;
  }

  #maybeBreak(): void {
    const { faults } = this.#context;
    if (this.#isClosed || this.isSilent) {
      return;
    }
    if (faults.choose('silent sockets', 0.01, this.hostName)) {
      this.isSilent = true;
    } else if (faults.choose('broken sockets', 0.01, this.hostName)) {
      this.#closeHostEnd();
      this.#context.scheduler.schedule(
        5,
        () => this.client.end({ reason: 'connection lost', status: null }),
        this.serviceActor,
      );
    }
  }
}

/** The service's end of a WebSocket. */
class ServiceSocket extends EventEmitter<GuardedSocketEvents> implements GuardedSocket {
  state: GuardedSocket['state'] = 'connecting';
  readonly #host: HostSocket;
  #hasEnded = false;

  constructor(host: HostSocket) {
    super();
    this.#host = host;
  }

  send(text: string): void {
    if (this.state === 'open') {
      this.#host.receive(text);
    }
  }

  ping(): void {
    if (this.state === 'open') {
      this.#host.ping();
    }
  }

  close(): void {
    if (!this.#hasEnded && this.state !== 'closed') {
      this.state = 'closed';
      this.#host.closedByService();
    }
  }

  terminate(): void {
    this.close();
  }

  handleOpen(): void {
    if (this.state === 'connecting') {
      this.state = 'open';
      this.emit('open');
    }
  }

  handleMessage(text: string): void {
    if (this.state === 'open') {
      this.emit('message', text);
    }
  }

  handlePong(): void {
    if (this.state === 'open') {
      this.emit('pong');
    }
  }

  end(details: CloseDetails): void {
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      this.state = 'closed';
      this.emit('close', details);
    }
  }
}

export interface ClientRequest {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH';
  /** With the query. */
  path: string;
  headers?: Record<string, string>;
  body?: object;
}

export interface ClientResponse {
  status: number;
  headers: Record<string, unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: clients read what they expect.
  body: any;
}

/** What a client sees if the connection breaks, or nothing arrives before its deadline. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}

export const PUBLIC_HOST = 'nutpost.example';

/** The reverse proxy in front of the processes. */
export class SimulatedProxy {
  readonly #context: NetworkContext;
  readonly #instances: readonly ServiceInstance[];
  readonly #onUnanswered: (request: ClientRequest) => void;

  /** @param onUnanswered called if a process, although it lives, has not answered a request in time */
  constructor(
    context: NetworkContext,
    instances: readonly ServiceInstance[],
    onUnanswered: (request: ClientRequest) => void,
  ) {
    this.#context = context;
    this.#instances = instances;
    this.#onUnanswered = onUnanswered;
  }

  /** @throws ConnectionError */
  async request(request: ClientRequest, address: string): Promise<ClientResponse> {
    const { scheduler, random, faults, history } = this.#context;
    const client = currentActor();
    const instance = this.#chooseInstance();
    const method = request.method ?? 'GET';
    const app = instance?.app;
    await scheduler.sleep(random.between(0.5, 10));
    if (instance === null || !app || faults.choose('lost requests', 0.01, 'clients')) {
      throw new ConnectionError('connection refused');
    }
    const { actor } = instance;
    const { promise, resolve, reject } = Promise.withResolvers<ClientResponse>();
    let isLost = false;
    const sentAtMs = scheduler.nowMs;
    const deadline = scheduler.schedule(getDeadlineMs(request), () => {
      const wasSuspended = actor.pausedUntilMs > sentAtMs;
      if (!isLost && actor.isAlive && !wasSuspended) {
        this.#onUnanswered(request);
      }
      reject(new ConnectionError('no response'));
    });
    const reset = () =>
      scheduler.schedule(5, () => reject(new ConnectionError('connection reset')), client);
    const forget = actor.onDeath(reset);
    const handle = async () => {
      faults.recordStep('receives a client request', actor);
      const response = await app.inject({
        method,
        url: request.path,
        headers: { host: PUBLIC_HOST, 'x-forwarded-for': address, ...request.headers },
        ...(request.body && { payload: request.body }),
        remoteAddress: '10.0.0.1',
      } as InjectOptions);
      faults.recordStep('answers a client', actor);
      isLost = faults.choose('lost answers', 0.01, 'clients');
      const answer = {
        status: response.statusCode,
        headers: response.headers,
        body: tryParseJson(response.body),
      };
      history.add(
        client,
        () =>
          `${method} ${request.path.replace(/nostr=.*/, 'nostr=…')} at ${actor.name} -> ${answer.status} ${response.body}`,
      );
      if (!isLost) {
        scheduler.schedule(random.between(0.5, 10), () => resolve(answer), client);
      }
    };
    const handleUnlessClosed = () =>
      handle().catch((error: Error & { code?: string }) => {
        if (error.code !== 'FST_ERR_REOPENED_CLOSE_SERVER') {
          throw error;
        }
        // The server stopped listening while the request was under way.
        reset();
      });
    scheduler.schedule(0, () => void handleUnlessClosed(), actor);
    try {
      return await promise;
    } finally {
      forget();
      scheduler.cancel(deadline);
    }
  }

  /** Opens a quote socket. `onClose` is called once, also if it never opened. */
  openSocket(
    address: string,
    { onMessage, onClose }: { onMessage: (text: string) => void; onClose: () => void },
  ): ClientSocket {
    const { scheduler, random, faults } = this.#context;
    const client = currentActor();
    const instance = this.#chooseInstance();
    const app = instance?.app;
    let hasEnded = false;
    let forget = () => {};
    const end = () => {
      if (!hasEnded) {
        hasEnded = true;
        forget();
        scheduler.schedule(random.between(1, 10), onClose, client);
      }
    };
    const socket = new ClientSocket(this.#context, instance?.actor ?? WORLD);
    if (instance === null || !app || faults.choose('refused sockets', 0.05, 'clients')) {
      end();
      return socket;
    }
    const { actor } = instance;
    forget = actor.onDeath(end);
    const connection = Object.assign(new EventEmitter(), {
      remoteAddress: '10.0.0.1',
      closed: false,
    });
    const open = async () => {
      try {
        await app.injectWS(
          '/api/v2/ws/quote',
          {
            headers: { host: PUBLIC_HOST, 'x-forwarded-for': address },
            socket: connection,
          } as never,
          {
            onInit: (webSocket) => {
              socket.webSocket = webSocket;
              // Unlike other clients of the library, an injected one leaves this to the test.
              webSocket.on('ping', (data) => {
                if (!socket.isSilent && client.isAlive) {
                  webSocket.pong(data);
                }
              });
              let arrivesAtMs = 0;
              webSocket.on('message', (data) => {
                if (faults.choose('broken sockets', 0.02, 'clients')) {
                  end();
                  webSocket.terminate();
                }
                const delayMs = random.between(0.5, 10);
                arrivesAtMs = Math.max(arrivesAtMs, scheduler.nowMs + delayMs);
                if (!socket.isSilent) {
                  const deliver = () => !hasEnded && onMessage(String(data));
                  scheduler.schedule(arrivesAtMs - scheduler.nowMs, deliver, client);
                }
              });
              webSocket.on('close', () => {
                connection.closed = true;
                connection.emit('close');
                // What the service sent before arrives first.
                scheduler.schedule(Math.max(0, arrivesAtMs - scheduler.nowMs), end, client);
              });
              webSocket.on('error', end);
            },
          },
        );
      } catch {
        end();
      }
    };
    scheduler.schedule(random.between(0.5, 10), () => void open(), actor);
    return socket;
  }

  #chooseInstance(): ServiceInstance | null {
    const serving = this.#instances.filter(({ isServing }) => isServing);
    return serving.length === 0 ? null : this.#context.random.pick(serving);
  }
}

/** A client's end of a quote socket. */
export class ClientSocket {
  webSocket: WebSocket | null = null;
  isSilent = false;
  readonly #context: NetworkContext;
  readonly #actor: Actor;

  constructor(context: NetworkContext, actor: Actor) {
    this.#context = context;
    this.#actor = actor;
  }

  send(text: string): void {
    this.#later(() => this.webSocket?.readyState === 1 && this.webSocket.send(text));
  }

  close(): void {
    this.#later(() => this.webSocket?.terminate());
  }

  /** The phone sleeps: it reads nothing, and does not respond to pings. */
  fallSilent(): void {
    this.isSilent = true;
    this.#later(() => this.webSocket?.pause());
  }

  #later(action: () => void): void {
    const { scheduler, random } = this.#context;
    scheduler.schedule(random.between(0.5, 10), action, this.#actor);
  }
}
