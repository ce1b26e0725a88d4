import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { REQUEST_FAULTS, type RequestFault } from './chaos.ts';
import {
  busy,
  type HttpAnswer,
  jsonAnswer,
  MintRefusal,
  notFound,
  rateLimited,
} from './refusal.ts';
import { ROUTE_HANDLERS, ROUTES, type Route } from './routes.ts';
import type { TestMintState } from './state.ts';

/** As of most servers; with Node's 5 s, a busy client would use connections that were just closed. */
const KEEP_ALIVE_MS = 75_000;

/** The `Retry-After` of a random 429. */
const RANDOM_RETRY_AFTER_SECONDS = 1;

/** The HTTP server of the mint: answers, unless the switches say otherwise. */
export function createMintServer(state: TestMintState): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    // Fails only if the client disconnects or the mint closes.
    answerRequest(state, request, response).catch(() => response.destroy());
  });
}

async function answerRequest(
  state: TestMintState,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { switches, chaos, holds, closing } = state;
  const receivedAtMs = performance.now();
  const { route, id } = findRoute(request);
  if (route === undefined) {
    send(response, notFound().toAnswer(switches.style));
    return;
  }
  state.requestCounts[route] += 1;
  const body = await text(request);
  if (switches.dead) {
    return;
  }
  await holds.pass(route, 'before');

  const fault = chaos.choose(REQUEST_FAULTS, route);
  if (fault === 'silence') {
    return;
  }
  if (fault === 'cutBefore') {
    response.destroy();
    return;
  }
  const answer = await answerRoute(state, route, id, body, fault);
  await holds.pass(route, 'after');
  if (fault === 'silenceAfter') {
    return;
  }
  if (fault === 'cutAfter') {
    response.destroy();
    return;
  }
  if (fault === 'late') {
    await delay(chaos.delayMs(), undefined, { signal: closing.signal });
  }
  if (fault === 'garbage') {
    answer.body = answer.body.slice(0, answer.body.length / 2);
  }
  send(response, answer);
  state.onAnswer?.({ route, status: answer.status, receivedAtMs, sentAtMs: performance.now() });
}

async function answerRoute(
  state: TestMintState,
  route: Route,
  id: string,
  body: string,
  fault: RequestFault | null,
): Promise<HttpAnswer> {
  try {
    const refusal = (fault && RANDOM_REFUSALS[fault]?.()) ?? plannedRefusal(state, route, id);
    if (refusal !== undefined) {
      throw refusal;
    }
    const parsed = body === '' ? undefined : JSON.parse(body);
    return jsonAnswer(200, await ROUTE_HANDLERS[route](state, id, parsed));
  } catch (error) {
    return error instanceof MintRefusal
      ? error.toAnswer(state.switches.style)
      : jsonAnswer(500, { detail: String(error), code: 0 });
  }
}

const RANDOM_REFUSALS: { [fault in RequestFault]?: () => MintRefusal } = {
  error: busy,
  rateLimit: () => rateLimited(RANDOM_RETRY_AFTER_SECONDS),
  bareRateLimit: () => rateLimited(),
};

/** The rate limit counts by path, as Nutshell's does: each quote has its own for single reads. */
function plannedRefusal(
  { rateLimits, plannedRefusals }: TestMintState,
  route: Route,
  id: string,
): MintRefusal | undefined {
  const limit = rateLimits.limitReached(route.replace(':id', id));
  return limit === null
    ? plannedRefusals.get(route)?.shift()
    : rateLimited(limit.retryAfterSeconds);
}

function send(response: ServerResponse, { status, headers, body }: HttpAnswer): void {
  response.writeHead(status, headers).end(body);
}

/** Takes the last segment of the path as an id if the path is not a route itself. */
function findRoute({ method, url }: IncomingMessage): { route: Route | undefined; id: string } {
  const name = `${method} ${url}`;
  const lastSlash = name.lastIndexOf('/');
  const pattern = `${name.slice(0, lastSlash)}/:id`;
  const route = ROUTES.find((candidate) => candidate === name || candidate === pattern);
  return { route, id: name.slice(lastSlash + 1) };
}
