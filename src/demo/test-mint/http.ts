import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { parseJson } from './body.ts';
import type { Chaos, RequestFault } from './chaos.ts';
import type { Holds } from './holds.ts';
import type { RateLimits } from './rate-limit.ts';
import {
  type HttpAnswer,
  jsonAnswer,
  MintRefusal,
  type RefusalReason,
  renderRefusal,
} from './refusal.ts';
import { ROUTES, type Route, type RouteHandler } from './routes.ts';
import type { TestMintSwitches } from './switches.ts';

/** What the HTTP side needs of the mint. */
export interface HttpContext {
  handlers: Record<Route, RouteHandler>;
  switches: TestMintSwitches;
  rateLimits: RateLimits;
  chaos: Chaos;
  holds: Holds;
  /** Ends a delay when the mint closes. */
  closing: AbortSignal;
  onRequest: (route: Route) => void;
  onAnswer: ((answer: SentAnswer) => void) | undefined;
  /** Takes the reason to reject this request, if a test planned one. */
  takeRejection: (route: Route) => RefusalReason | undefined;
}

/** An answer that was sent in full. Times from `performance.now()`. */
export interface SentAnswer {
  route: Route;
  status: number;
  receivedAtMs: number;
  sentAtMs: number;
}

/**
 * As long as of most servers. A client that is busy for seconds would else use a connection that has just
 * been closed.
 */
const KEEP_ALIVE_MS = 75_000;

/** The HTTP server of the mint: counts, stalls, limits and fails as the switches say, and answers. */
export function createMintServer(context: HttpContext): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    // Only a vanished client or the end of the mint gets here: nobody waits for an answer.
    answerRequest(context, request, response).catch(() => response.destroy());
  });
}

async function answerRequest(
  context: HttpContext,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { switches, closing } = context;
  const receivedAtMs = performance.now();
  const found = findRoute(request);
  if (found !== null) {
    context.onRequest(found.route);
  }
  const body = await text(request);
  if (switches.dead) {
    return;
  }
  if (switches.delayMs > 0) {
    await delay(switches.delayMs, undefined, { signal: closing });
  }
  if (found !== null) {
    await context.holds.pass(found.route, 'before');
  }
  const fault = found === null ? null : context.chaos.requestFault(found.route);
  if (fault?.kind === 'silence') {
    return;
  }
  const answer = faultyAnswer(fault, switches) ?? (await answerRoute(context, found, body));
  if (found !== null) {
    await context.holds.pass(found.route, 'after');
  }
  if (fault?.kind === 'silenceAfter') {
    return;
  }
  if (answer === 'cut' || fault?.kind === 'cutAfter') {
    response.destroy();
    return;
  }
  if (fault?.kind === 'late') {
    await delay(fault.delayMs, undefined, { signal: closing });
  }
  const isWhole = fault?.kind !== 'garbage';
  response
    .writeHead(answer.status, answer.headers)
    .end(isWhole ? answer.body : answer.body.slice(0, answer.body.length / 2));
  if (found !== null) {
    const { status } = answer;
    context.onAnswer?.({ route: found.route, status, receivedAtMs, sentAtMs: performance.now() });
  }
}

/** What a mint does instead of what it was asked for; null where it does that. */
function faultyAnswer(
  fault: RequestFault | null,
  { style }: TestMintSwitches,
): HttpAnswer | 'cut' | null {
  switch (fault?.kind) {
    case 'error':
      return fault.status === 500 ? renderRefusal({ kind: 'busy' }, style) : PROXY_ERROR;
    case 'rateLimit': {
      const { retryAfterSeconds } = fault;
      return renderRefusal({ kind: 'rate_limited', retryAfterSeconds }, style);
    }
    case 'bareRateLimit':
      return renderRefusal({ kind: 'rate_limited' }, style);
    case 'cutBefore':
      return 'cut';
    default:
      return null;
  }
}

/** What a proxy says in the place of a mint that it cannot reach. */
const PROXY_ERROR: HttpAnswer = {
  status: 503,
  headers: { 'content-type': 'text/html' },
  body: '<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>',
};

interface FoundRoute {
  route: Route;
  id: string;
}

async function answerRoute(
  context: HttpContext,
  found: FoundRoute | null,
  body: string,
): Promise<HttpAnswer> {
  try {
    if (found === null) {
      throw new MintRefusal({ kind: 'not_found' });
    }
    refuseTooMany(context, found);
    const rejection = context.takeRejection(found.route);
    if (rejection !== undefined) {
      throw new MintRefusal(rejection);
    }
    const parsed = found.route.startsWith('POST') ? parseJson(body) : undefined;
    return jsonAnswer(200, await context.handlers[found.route]({ id: found.id, body: parsed }));
  } catch (error) {
    return error instanceof MintRefusal
      ? renderRefusal(error.reason, context.switches.style)
      : jsonAnswer(500, { detail: String(error), code: 0 });
  }
}

/** Counted by path, as Nutshell does: so the reads of each quote by themselves. */
function refuseTooMany({ rateLimits }: HttpContext, found: FoundRoute): void {
  const limit = rateLimits.limitReached(found.route.replace(':id', found.id));
  if (limit !== null) {
    throw new MintRefusal({ kind: 'rate_limited', retryAfterSeconds: limit.retryAfterSeconds });
  }
}

/** The route of a request; where none fits as it is, its last segment is taken as an id. */
function findRoute({ method, url }: IncomingMessage): FoundRoute | null {
  const name = `${method} ${url}`;
  const lastSlash = name.lastIndexOf('/');
  const pattern = `${name.slice(0, lastSlash)}/:id`;
  const route = ROUTES.find((candidate) => candidate === name || candidate === pattern);
  return route === undefined ? null : { route, id: name.slice(lastSlash + 1) };
}
