import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { encodeFrame, RawWebSocket } from '../../helpers/network/raw-websocket-client.ts';
import { assertMatchesOpenApi } from '../../helpers/service/openapi-validator.ts';
import { generateFramingCase, generateSocketCase, SOCKET_PATH } from './malformed-framing-cases.ts';
import {
  type FuzzTargets,
  generateRequestCase,
  type RequestCase,
} from './malformed-request-cases.ts';

export interface FuzzResult {
  /** Number of requests and socket messages. */
  sentCount: number;
  /** Number of responses by status. */
  statuses: ReadonlyMap<number, number>;
  /** By problem: examples of the bytes that caused it. */
  problems: ReadonlyMap<string, string[]>;
}

const CONCURRENT_CLIENTS = 64;

/** Low, because each socket sends about seven messages. */
const SOCKET_CASE_SHARE = 0.035;
const FRAMING_CASE_SHARE = 0.1;

const RESPONSE_TIMEOUT_MS = 15_000;

/** How long the client waits for more data before it closes its side of the connection. */
const IDLE_TIMEOUT_MS = 150;

const MAX_EXAMPLES = 3;
const EXAMPLE_LENGTH = 300;

/** What the service may answer. 500 with `Retry-After` is for a token whose mint is unavailable. */
const EXPECTED_STATUSES = [200, 201, 204, 400, 401, 402, 404, 405, 408, 413, 429, 431];

/** Text that reveals internals of the service. */
const INTERNALS_PATTERN =
  /node_modules|\.(ts|js|cjs|mjs):\d|\n\s+at |\bat [\w.]+ \(|select .* from|insert into|FST_|ERR_|HPE_|ECONN|ENOTFOUND|EAI_|sqlite|postgres|kysely|fastify|zod|file:\/\/|\/(home|usr|work|tmp|src|app)\/|<html|undefined|\[object/i;

/** Base64 in responses, which can match the pattern above by chance: JWTs, payment requests and handshake headers. */
const BASE64_PATTERN = /(eyJ|creqA|Sec-WebSocket-Accept: )[\w.+/=-]+/g;

/** Message types of the quote socket. */
const MESSAGE_TYPES = ['challenge', 'challenge-success', 'update', 'pong', 'error'];

/**
 * Sends pseudo-random requests and socket messages concurrently, and checks every response against docs/api.md.
 *
 * @param options.count number of requests and socket messages together
 */
export async function runFuzzer(options: {
  seed: string;
  origin: string;
  count: number;
  targets: FuzzTargets;
}): Promise<FuzzResult> {
  const { origin, count, targets } = options;
  const seedRandom = new SeededRandom(options.seed);
  const statuses = new Map<number, number>();
  const problems = new Map<string, string[]>();
  let sentCount = 0;
  let caseCount = 0;
  await Promise.all(Array.from({ length: CONCURRENT_CLIENTS }, runClient));
  return { sentCount, statuses, problems };

  async function runClient(): Promise<void> {
    while (sentCount < count) {
      caseCount += 1;
      const name = `case ${caseCount}`;
      const random = seedRandom.fork(name);
      const share = random.next();
      if (share < SOCKET_CASE_SHARE) {
        await testSocket(random, name);
      } else if (share < SOCKET_CASE_SHARE + FRAMING_CASE_SHARE) {
        const framing = generateFramingCase(random);
        await testRequest(name, { ...framing, method: 'GET', target: '', marker: 'no marker' });
      } else {
        await testRequest(name, generateRequestCase(random, targets));
      }
    }
  }

  async function testRequest(name: string, request: RequestCase): Promise<void> {
    const { bytes, method, isResponseRequired } = request;
    sentCount += 1;
    const { received, isClosed } = await sendAndReceive(origin, bytes, isResponseRequired);
    const { responses, rest } = parseResponses(received, method === 'HEAD');
    const found = responses.flatMap((response) => findProblems(response, request));
    for (const { status } of responses) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    recordProblems(name, bytes, [
      ...found,
      ...(isClosed ? [] : ['the connection stayed open after the client closed it']),
      ...(isResponseRequired && responses.length === 0 ? ['no response'] : []),
      ...(rest === '' || method === 'HEAD'
        ? []
        : [`incomplete response: ${JSON.stringify(rest.slice(0, 80))}`]),
    ]);
  }

  async function testSocket(random: SeededRandom, name: string): Promise<void> {
    const user = random.pick(targets.users);
    const { shouldAuthenticate, frames, endsWithFatalFrame, marker } = generateSocketCase(
      random,
      user,
    );
    const bytes = Buffer.concat(frames);
    sentCount += frames.length;
    const socket = await RawWebSocket.connect(origin);
    const exchangeMessages = async () => {
      await socket.waitForText('"challenge"');
      if (shouldAuthenticate) {
        await socket.authenticate(user.wallet.signRequest(SOCKET_PATH));
      }
      socket.send(bytes);
      if (!endsWithFatalFrame) {
        socket.send(encodeFrame('{"type":"ping"}'));
        await socket.waitForText('"pong"');
        socket.connection.end();
      }
      await socket.waitForClose();
      return true;
    };
    const isFinished = await Promise.race([
      exchangeMessages().catch(() => false),
      delay(RESPONSE_TIMEOUT_MS, false, { ref: false }),
    ]);
    socket.connection.destroy();
    const receivedTypes = [...socket.received.matchAll(/\{"type":"([^"]*)"/g)].map(
      ([, type = '']) => type,
    );
    const unknownTypes = receivedTypes.filter((type) => !MESSAGE_TYPES.includes(type));
    recordProblems(name, bytes, [
      ...unknownTypes.map((type) => `unknown message type: ${type}`),
      ...(isFinished ? [] : ['a socket stayed open or did not respond']),
      ...findLeaks(socket.received, marker),
    ]);
  }

  function recordProblems(name: string, bytes: Buffer, found: readonly string[]): void {
    for (const problem of found) {
      const examples = problems.get(problem) ?? [];
      problems.set(problem, examples);
      if (examples.length < MAX_EXAMPLES) {
        const start = JSON.stringify(bytes.subarray(0, EXAMPLE_LENGTH).toString('latin1'));
        examples.push(`${name}, ${bytes.length} bytes: ${start}`);
      }
    }
  }
}

/**
 * Sends bytes on a new connection. When the server stops sending, closes the client's side and waits until the server
 * closes the connection.
 */
async function sendAndReceive(
  origin: string,
  bytes: Buffer,
  isResponseRequired: boolean,
): Promise<{ received: string; isClosed: boolean }> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  // The server may reset the connection at any time. A 'close' event follows.
  socket.on('error', () => undefined);
  const chunks: Buffer[] = [];
  const closed = new Promise<boolean>((resolve) => socket.once('close', () => resolve(true)));
  let idleTimer = setTimeout(
    () => socket.end(),
    isResponseRequired ? RESPONSE_TIMEOUT_MS : IDLE_TIMEOUT_MS,
  );
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    clearTimeout(idleTimer);
    idleTimer = setTimeout(() => socket.end(), IDLE_TIMEOUT_MS);
  });
  await once(socket, 'connect');
  socket.write(bytes);
  const timeout = delay(2 * RESPONSE_TIMEOUT_MS, false, { ref: false });
  const isClosed = await Promise.race([closed, timeout]);
  clearTimeout(idleTimer);
  socket.destroy();
  return { received: Buffer.concat(chunks).toString('latin1'), isClosed };
}

interface RawResponse {
  status: number;
  headers: Headers;
  body: string;
}

/**
 * Parses consecutive responses. Stops at the first that is incomplete or has no length, and returns the rest as text.
 */
function parseResponses(
  text: string,
  isHeadRequest: boolean,
): { responses: RawResponse[]; rest: string } {
  const responses: RawResponse[] = [];
  let rest = text;
  for (;;) {
    const [, code, lines = ''] =
      /^HTTP\/1\.1 (\d{3})[^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest) ?? [];
    if (code === undefined) {
      return { responses, rest };
    }
    const pairs = lines.split('\r\n').filter((line) => line !== '');
    const headers = new Headers(pairs.map((line) => line.split(': ', 2) as [string, string]));
    const status = Number(code);
    const isBodiless = isHeadRequest || status < 200 || status === 204;
    const length = isBodiless ? 0 : Number(headers.get('content-length') ?? Number.NaN);
    const start = rest.indexOf('\r\n\r\n') + 4;
    if (Number.isNaN(length) || rest.length < start + length) {
      return { responses, rest };
    }
    // Interim responses, such as 100 Continue, precede the final one.
    if (status >= 200) {
      const body = Buffer.from(rest.slice(start, start + length), 'latin1').toString();
      responses.push({ status, headers, body });
    }
    rest = rest.slice(start + length);
  }
}

/** Returns how a response differs from docs/api.md. */
function findProblems(response: RawResponse, { method, target, marker }: RequestCase): string[] {
  const { status, headers, body } = response;
  const contentType = headers.get('content-type') ?? '';
  const isBodiless = method === 'HEAD' || status === 204;
  const isExpected =
    EXPECTED_STATUSES.includes(status) ||
    (status === 500 && /^[1-9]\d*$/.test(headers.get('retry-after') ?? ''));
  const isPage = /^text\/html\b/.test(contentType);
  const checks: [isCorrect: boolean, problem: string][] = [
    [isExpected, `status ${status}`],
    [isPage || headers.get('access-control-allow-origin') === '*', `${status} without CORS header`],
    [
      isPage || status === 204 || /^application\/json\b/.test(contentType),
      `${status} of type ${contentType}`,
    ],
    [
      /^creqA/.test(headers.get('x-cashu') ?? '') === (status === 402),
      `${status} with X-Cashu '${headers.get('x-cashu')}'`,
    ],
    [
      isPage || isBodiless || isErrorOrDocumented(response, method, target),
      `${status} not in a documented format`,
    ],
  ];
  // Preflights repeat the requested names, which only the client's own browser reads.
  const headerTexts = [...headers].flatMap(([name, value]) =>
    name === 'access-control-allow-headers' ? [] : value,
  );
  const text = `${headerTexts.join('\n')}\n${isBodiless ? '' : body.replace('<html', '')}`;
  return [
    ...checks.filter(([isCorrect]) => !isCorrect).map(([, problem]) => problem),
    ...findLeaks(text, marker),
  ];
}

/** Returns whether a body is an error of the API or of LNURL, or a success that matches the OpenAPI document. */
function isErrorOrDocumented(response: RawResponse, method: string, target: string): boolean {
  const body = parseObject(response.body);
  const isApiError = body['error'] === true && isNonEmptyString(body['message']);
  const isLnurlError = body['status'] === 'ERROR' && isNonEmptyString(body['reason']);
  return (
    isApiError ||
    isLnurlError ||
    (response.status < 300 &&
      succeeds(() => assertMatchesOpenApi(method, target, { ...response, body })))
  );
}

function succeeds(check: () => void): boolean {
  try {
    check();
    return true;
  } catch {
    return false;
  }
}

function findLeaks(text: string, marker: string): string[] {
  const leaked = INTERNALS_PATTERN.exec(text.replace(BASE64_PATTERN, ''))?.[0];
  return [
    ...(leaked === undefined ? [] : [`reveals internals: ${JSON.stringify(leaked)}`]),
    ...(text.includes(marker) ? ['echoes client input'] : []),
  ];
}

function isNonEmptyString(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** Returns an empty object if the text is not a JSON object. */
function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
