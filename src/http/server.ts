import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import cors from '@fastify/cors';
import websocket from '@fastify/websocket';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { validatorCompiler } from 'fastify-type-provider-zod';
import ipaddr from 'ipaddr.js';
import type { Readiness } from '../database/readiness.ts';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { tryParseJson } from '../untrusted-text.ts';
import { escapeZapRequestAmpersands } from '../zaps/zap-request.ts';
import {
  handleSocketError,
  isQuoteSocketUpgrade,
  SOCKET_SERVER_OPTIONS,
} from './api/quote-socket-server.ts';
import { type ClientLimits, ClientRateLimiter } from './client-rate-limiter.ts';
import {
  CORS_HEADERS,
  type ErrorPageSender,
  handleClientError,
  handleHandshakeError,
  hasPendingResponse,
  latestResponses,
  registerErrorHandlers,
  sendError,
} from './errors.ts';
import { READY_PATH } from './routes/health.ts';
import { MIN_COUNTED_LENGTH, UnreadResponses } from './unread-responses.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether the request failed because of a bug or the database, and not because of a client or a mint. */
    hasInternalError: boolean;
    /** The bytes of the body; null if the request has no body. */
    rawBody: Buffer | null;
  }
}

/** Connections besides quote sockets. More than a process can serve, but fewer than its file descriptors. */
const MAX_HTTP_CONNECTIONS = 10_000;

/**
 * Connections that wait in the kernel, which may have a lower limit (`net.core.somaxconn`). Node accepts one connection
 * in each turn of its event loop, so they pile up while it is busy. Beyond Node's default of 511, the kernel would drop
 * them, and clients would wait for seconds or get ECONNRESET.
 */
const MAX_UNACCEPTED_CONNECTIONS = 4_096;

const CORS_PREFLIGHT_OPTIONS = {
  origin: '*',
  methods: ['GET', 'HEAD', 'POST', 'PATCH', 'OPTIONS'],
  // All: `allowedHeaders` is missing, so the response repeats the requested names. Tracing libraries add headers.
  maxAge: 86_400,
  strictPreflight: false,
};

const REQUEST_ID_HEADER = 'x-request-id';

/** Allows UUIDs, hex and numbers. Other characters could forge log text. */
const SAFE_REQUEST_ID = /^[\w.:-]{1,64}$/;

/** Ranges of addresses that no client on the internet has, so they belong to the operator's own proxy. */
const PRIVATE_RANGES = new Set<string>(['loopback', 'private', 'uniqueLocal', 'linkLocal']);

export interface ServerDeps {
  log: Logger;
  readiness: Pick<Readiness, 'isStopping'>;
  monotonicMs: () => number;
  trustProxy: readonly string[];
  limits: ClientLimits;
  sendErrorPage: ErrorPageSender | null;
  /** Called with the address of the first reverse proxy that `trustProxy` does not contain. */
  onUntrustedProxy: (proxy: string) => void;
  /** Called after each response. `route` is the route pattern, without the values in the path. */
  onResponse: (response: {
    method: string;
    route: string;
    status: number;
    durationMs: number;
    hasInternalError: boolean;
  }) => void;
}

/** Creates the HTTP server without routes. Authenticated routes must add the rate limiter's `limitByPubkey` hook. */
export async function createServer(deps: ServerDeps) {
  const { log, limits, trustProxy } = deps;
  const hasTrustedProxy = trustProxy.length > 0;
  const app: FastifyInstance = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    // Fastify would log URLs, which contain secrets. An `onResponse` hook logs the route instead.
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: hasTrustedProxy && [...trustProxy],
    genReqId: (request) => chooseRequestId(request, hasTrustedProxy),
    // The longest valid body contains a mint URL.
    bodyLimit: 32 * 1024,
    requestTimeout: 30_000,
    // Closes connections whose client stopped reading; longer than any response takes.
    connectionTimeout: 120_000,
    // Longer than the idle timeouts of common proxies, so that the proxy closes connections first.
    keepAliveTimeout: 72_000,
    // Serves requests that arrive during the shutdown.
    return503OnClosing: false,
    http: {
      // Includes the request line. Node's 16 KiB are too small for a long token in `X-Cashu`.
      maxHeaderSize: 64 * 1024,
      headersTimeout: 10_000,
      // With Node's default of 30 s, the server would notice timeouts up to 30 s late.
      connectionsCheckingInterval: 5_000,
      // Overrides NODE_OPTIONS: a lenient parser allows request smuggling.
      insecureHTTPParser: false,
      requireHostHeader: false,
      // Connections that Node upgrades have no timeouts, so only quote sockets are upgraded.
      shouldUpgradeCallback: (request) =>
        app.server.listening &&
        isQuoteSocketUpgrade(request) &&
        !hasPendingResponse(request.socket),
    },
    routerOptions: {
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
      // Longer than the longest URL, so that each route itself rejects long names and tokens.
      maxParamLength: 128 * 1024,
    },
    schemaController: {
      compilersFactory: {
        // Fastify's types only allow JSON Schema compilers.
        buildValidator: (() => validatorCompiler) as never,
        // Response schemas serve types and documentation only (ADR 18).
        buildSerializer: () => () => JSON.stringify,
      },
    },
    // Removes the origin, which an absolute-form target contains (RFC 9112 section 3.2.2). Other targets without a
    // slash, such as `*`, must not lead to the home page.
    rewriteUrl: ({ url = '' }) =>
      escapeZapRequestAmpersands(
        url.startsWith('/') ? url : `/${url.replace(/^https?:\/\/[^/?#]*\/?/i, '')}`,
      ),
    // For errors before any hook has run.
    frameworkErrors: (error, request, reply) => {
      setCommonHeaders(request, reply);
      sendError(error, request, reply);
    },
    clientErrorHandler: handleClientError,
  });
  registerErrorHandlers(app, deps.sendErrorPage);
  app.server.on('request', (request, response) => latestResponses.set(request.socket, response));
  addCommonHooks(app, deps);
  limitConnections(app, limits.maxSockets, log);

  const rateLimiter = new ClientRateLimiter(limits, deps.monotonicMs);
  await app.register(websocket, {
    options: SOCKET_SERVER_OPTIONS,
    errorHandler: handleSocketError,
  });
  app.websocketServer.on('wsClientError', handleHandshakeError);
  // Ignores unknown `Expect` headers. Node would respond with 417 and no body.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response);
  });
  // Must run after the WebSocket plugin's hook, so that `sendError` recognises rejected handshakes.
  app.addHook('onRequest', rateLimiter.limitByAddress);
  // In its own scope, because the plugin would also add headers to all other responses.
  await app.register(async (scope) => {
    await scope.register(cors, CORS_PREFLIGHT_OPTIONS);
  });
  return { app, rateLimiter };
}

/** Closes connections beyond a limit, so that enough file descriptors remain for connections to mints. */
function limitConnections({ server }: FastifyInstance, maxSockets: number, log: Logger): void {
  if (maxSockets === 0) {
    return;
  }
  server.maxConnections = maxSockets + MAX_HTTP_CONNECTIONS;
  server.once('drop', () =>
    log.warn(
      { event: 'connection_limit_reached', connections: server.maxConnections },
      'connection limit reached (LIMIT_SOCKETS); closing further connections',
    ),
  );
}

/** Listens on a host and a port (0 for any free port). Returns the URL. */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  // `app.listen` would log the addresses of all interfaces.
  await app.ready();
  app.server.listen({ host, port, backlog: MAX_UNACCEPTED_CONNECTIONS });
  await once(app.server, 'listening');
  const { address, family, port: chosenPort } = app.server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${chosenPort}`;
}

function addCommonHooks(
  app: FastifyInstance,
  { log, readiness, onUntrustedProxy, onResponse }: ServerDeps,
): void {
  let hasWarnedAboutProxy = false;
  app.decorateRequest('hasInternalError', false);
  app.decorateRequest('pubkey', '');
  app.decorateRequest('signedPayloadHash', null);
  app.addHook('onRequest', (request, reply, done) => {
    setCommonHeaders(request, reply);
    const proxy = hasWarnedAboutProxy ? null : findUntrustedProxy(request);
    if (proxy !== null) {
      hasWarnedAboutProxy = true;
      onUntrustedProxy(proxy);
      log.warn(
        { event: 'untrusted_proxy', proxy },
        `requests arrive through the untrusted proxy ${proxy}, so its clients share the rate limits of one` +
          ` address; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
      );
    }
    done();
  });
  const unreadResponses = new UnreadResponses();
  app.addHook('onSend', (request, reply, payload, done) => {
    if (typeof payload === 'string' && payload.length >= MIN_COUNTED_LENGTH) {
      unreadResponses.add(request, reply, payload.length);
    }
    if (readiness.isStopping) {
      // The client then reconnects, and the load balancer can choose another process.
      reply.header('connection', 'close');
    }
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const response = {
      method: request.method,
      // Not the path, which may contain a verify token.
      route: request.routeOptions.url ?? 'none',
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
    };
    // Logs failed requests, which users report by id, except readiness probes, which would flood the log.
    const level = response.status >= 500 && response.route !== READY_PATH ? 'info' : 'debug';
    request.log[level](
      { event: 'request_completed', ...response, durationMs: Math.round(response.durationMs) },
      'request completed',
    );
    onResponse({ ...response, hasInternalError: request.hasInternalError });
    done();
  });
  // Parses every body as JSON, whatever its content type, and stores the bytes for the NIP-98 payload hash.
  app.decorateRequest('rawBody', null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = Buffer.from(body);
    const json = tryParseJson(new TextDecoder().decode(request.rawBody));
    const problem =
      body.length === 0 ? 'The body is empty; JSON is expected.' : 'The body is not valid JSON.';
    done(json === undefined ? new RequestError('invalid', problem) : null, json);
  });
}

/** Sets the headers that every response has. */
function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(CORS_HEADERS);
  reply.header('access-control-expose-headers', 'X-Cashu, Retry-After, X-Request-Id');
  reply.header(REQUEST_ID_HEADER, request.id);
}

/** Returns a trusted proxy's request id if it is valid, otherwise a UUID. */
function chooseRequestId({ headers }: IncomingMessage, hasTrustedProxy: boolean): string {
  const id = headers[REQUEST_ID_HEADER];
  const isUsable = hasTrustedProxy && typeof id === 'string' && SAFE_REQUEST_ID.test(id);
  return isUsable ? id : randomUUID();
}

/** Returns the address of the request's reverse proxy if `TRUST_PROXY` does not contain it; otherwise null. */
function findUntrustedProxy({ headers, ip, ips = [ip] }: FastifyRequest): string | null {
  // `ips` has several entries only if the proxy is trusted.
  if (!headers['x-forwarded-for'] || ips.length > 1 || !ipaddr.isValid(ip)) {
    return null;
  }
  // Dual-stack sockets report IPv4 addresses as `::ffff:127.0.0.1`.
  const address = ipaddr.process(ip);
  return PRIVATE_RANGES.has(address.range()) ? address.toString() : null;
}

/** A Host header may contain the default port, which an origin omits. */
const DEFAULT_PORT = /:(?:80|443)$/;

/** A fully qualified name ends with a dot: `pay.example.` equals `pay.example`. */
const TRAILING_DOT = /\.(?=:\d+$|$)/;

/** The public origins of this service. They come from its configuration, never from a client's header. */
export class PublicOrigins {
  #origins: readonly string[];

  /** @param origins the first is canonical. If empty, {@link setListeningPort} sets the local address */
  constructor(origins: readonly string[]) {
    this.#origins = origins;
  }

  get origins(): readonly string[] {
    return this.#origins;
  }

  setListeningPort(port: number): void {
    if (this.#origins.length === 0) {
      this.#origins = [`http://localhost:${port}`];
    }
  }

  /** Returns the origin with the request's host, preferably also with its scheme, or else the canonical origin. */
  getOriginForRequest(request: Pick<FastifyRequest, 'protocol' | 'host'>): string {
    const host = normaliseHost(request.host ?? '');
    const originsWithHost = this.#origins.filter(
      (origin) => normaliseHost(this.getHost(origin)) === host,
    );
    const sameScheme = originsWithHost.find((origin) =>
      origin.startsWith(`${request.protocol}://`),
    );
    return sameScheme ?? originsWithHost[0] ?? this.canonicalOrigin;
  }

  /** Returns the host of an origin. Includes the port unless it is the default port. */
  getHost(origin: string): string {
    return origin.slice(origin.indexOf('//') + 2);
  }

  get canonicalOrigin(): string {
    const canonical = this.#origins[0];
    if (canonical === undefined) {
      throw new Error('the public origin is not known before the server listens');
    }
    return canonical;
  }
}

function normaliseHost(host: string): string {
  return host.toLowerCase().replace(DEFAULT_PORT, '').replace(TRAILING_DOT, '');
}
