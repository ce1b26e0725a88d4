import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { parseJson } from './body.ts';
import type { ElasticRateLimit } from './rate-limit.ts';
import { type HttpAnswer, jsonAnswer, MintRefusal, renderRefusal } from './refusal.ts';
import { ROUTES, type Route, type RouteHandler } from './routes.ts';
import type { TestMintSwitches } from './switches.ts';

/** What the HTTP side needs of the mint. */
export interface HttpContext {
  handlers: Record<Route, RouteHandler>;
  switches: TestMintSwitches;
  rateLimit: ElasticRateLimit;
  /** Milliseconds since 1970. */
  now: () => number;
  /** Ends a delay when the mint closes. */
  closing: AbortSignal;
  onRequest: (route: Route) => void;
  /** Whether this request is one of those that must fail. */
  takesFailure: (route: Route) => boolean;
}

/** The HTTP server of the mint: counts, stalls, limits and fails as the switches say, and answers. */
export function createMintServer(context: HttpContext): Server {
  return createServer((request, response) => {
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
  const answer = await answerRoute(context, found, body);
  response.writeHead(answer.status, answer.headers).end(answer.body);
}

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
    refuseTooMany(context, found.route);
    if (context.takesFailure(found.route)) {
      throw new MintRefusal({ kind: 'busy' });
    }
    const parsed = found.route.startsWith('POST') ? parseJson(body) : undefined;
    return jsonAnswer(200, await context.handlers[found.route]({ id: found.id, body: parsed }));
  } catch (error) {
    return error instanceof MintRefusal
      ? renderRefusal(error.reason, context.switches.style)
      : jsonAnswer(500, { detail: String(error), code: 0 });
  }
}

function refuseTooMany({ switches, rateLimit, now }: HttpContext, route: Route): void {
  const limit = switches.rateLimit;
  if (limit !== null && !rateLimit.admits(route, limit.perMinute, now())) {
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
