import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { REQUEST_FAULTS, type RequestFault } from './chaos.ts';
import {
  databaseBusy,
  type HttpResponse,
  jsonResponse,
  MintRejection,
  notFound,
  rateLimited,
} from './mint-rejection.ts';
import { ROUTE_HANDLERS, ROUTES, type Route } from './routes.ts';
import type { TestMintState } from './state.ts';

/** A usual value. With Node's default of 5 s, a busy client would reuse connections that the mint has just closed. */
const KEEP_ALIVE_MS = 75_000;

const CHAOS_RETRY_AFTER_SECONDS = 1;

export function createMintServer(state: TestMintState): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    // The handler fails only if the client disconnects or the mint closes.
    handleRequest(state, request, response).catch(() => response.destroy());
  });
}

async function handleRequest(
  state: TestMintState,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { switches, chaos, holds, closeController } = state;
  if (switches.allowsWebPages) {
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader('access-control-allow-headers', 'content-type');
  }
  if (request.method === 'OPTIONS') {
    response.writeHead(204).end();
    return;
  }
  const { route, id } = findRoute(request);
  if (route === undefined) {
    send(response, notFound().toHttpResponse(switches.style));
    return;
  }
  state.requestCounts[route] += 1;
  const body = await text(request);
  if (switches.isUnresponsive) {
    return;
  }
  await holds.waitIfHeld(route, 'before');

  const fault = chaos.chooseFault(REQUEST_FAULTS, route);
  if (fault === 'silence') {
    return;
  }
  if (fault === 'cutBefore') {
    response.destroy();
    return;
  }
  const result = await executeRoute(state, route, id, body, fault);
  await holds.waitIfHeld(route, 'after');
  if (fault === 'silenceAfter') {
    return;
  }
  if (fault === 'cutAfter') {
    response.destroy();
    return;
  }
  if (fault === 'late') {
    await delay(chaos.randomDelayMs(), undefined, { signal: closeController.signal });
  }
  if (fault === 'garbage') {
    result.body = result.body.slice(0, result.body.length / 2);
  }
  send(response, result);
}

/** @param fault may be one that rejects the request */
export async function executeRoute(
  state: TestMintState,
  route: Route,
  id: string,
  body: string,
  fault: RequestFault | null,
): Promise<HttpResponse> {
  try {
    const chaosRejection = fault === null ? undefined : CHAOS_REJECTIONS[fault]?.();
    const rejection = chaosRejection ?? takeRejection(state, route, id);
    if (rejection !== undefined) {
      throw rejection;
    }
    const parsedBody = body === '' ? undefined : JSON.parse(body);
    return jsonResponse(200, await ROUTE_HANDLERS[route](state, id, parsedBody));
  } catch (error) {
    return error instanceof MintRejection
      ? error.toHttpResponse(state.switches.style)
      : jsonResponse(500, { detail: String(error), code: 0 });
  }
}

const CHAOS_REJECTIONS: { [fault in RequestFault]?: () => MintRejection } = {
  error: databaseBusy,
  rateLimit: () => rateLimited(CHAOS_RETRY_AFTER_SECONDS),
  bareRateLimit: () => rateLimited(),
};

/**
 * Counts a request against the rate limit, and returns the rejection that the mint must send, if any. Counts by
 * path, as Nutshell does. Reading single quotes therefore has a separate limit for each quote.
 */
function takeRejection(
  { rateLimiter, plannedRejections }: TestMintState,
  route: Route,
  id: string,
): MintRejection | undefined {
  const exceededLimit = rateLimiter.countRequest(route.replace(':id', id));
  return exceededLimit === null
    ? plannedRejections.get(route)?.shift()
    : rateLimited(exceededLimit.retryAfterSeconds);
}

function send(response: ServerResponse, { status, headers, body }: HttpResponse): void {
  response.writeHead(status, headers).end(body);
}

/** Returns the route of a request, and the last segment of its path as `id`. */
export function findRoute({ method, url }: Pick<IncomingMessage, 'method' | 'url'>): {
  route: Route | undefined;
  id: string;
} {
  const name = `${method} ${url}`;
  const lastSlash = name.lastIndexOf('/');
  const pattern = `${name.slice(0, lastSlash)}/:id`;
  const route = ROUTES.find((candidate) => candidate === name || candidate === pattern);
  return { route, id: name.slice(lastSlash + 1) };
}
