import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { assertMatchesOpenApi } from '../../helpers/openapi-validator.ts';
import { encodeFrame, RawWebSocket } from '../../helpers/raw-websocket.ts';
import { generateFramingCase, generateSocketCase, SOCKET_PATH } from './framing-cases.ts';
import { type FuzzTargets, generateRequestCase, type RequestCase } from './request-cases.ts';

export interface FuzzResult {
  /** Requests and socket messages. */
  sent: number;
  /** Number of responses by status. */
  statuses: ReadonlyMap<number, number>;
  /** Examples of sent bytes, by problem. */
  problems: ReadonlyMap<string, string[]>;
}

const CONCURRENT_CLIENTS = 64;

/** Low, because a socket sends about seven messages, each of which counts. */
const SOCKET_CASE_SHARE = 0.035;
const FRAMING_CASE_SHARE = 0.1;

const RESPONSE_TIMEOUT_MS = 15_000;

/** How long to wait for a response that is not required before closing. */
const QUIET_MS = 150;

const MAX_EXAMPLES = 3;
const EXAMPLE_LENGTH = 300;

/** Acceptable responses to broken framing, which may be parsed as a request for any endpoint. */
const ANY_RESPONSE: Omit<RequestCase, 'bytes'> = {
  method: 'GET',
  target: '',
  errorFormat: null,
  allowedStatuses: [200, 400, 401, 404, 408, 413, 431],
  hasPaymentToken: false,
  mayBeUnparseable: true,
  isHuge: false,
  marker: 'no marker',
};

/** Text that reveals internals of the service. */
const INTERNALS_PATTERN =
  /node_modules|\.(ts|js|cjs|mjs):\d|\n\s+at |\bat [\w.]+ \(|select .* from|insert into|FST_|ERR_|HPE_|ECONN|ENOTFOUND|EAI_|sqlite|postgres|kysely|fastify|zod|file:\/\/|\/(home|usr|work|tmp|src|app)\/|<html|undefined|\[object/i;

/** Message types of the quote socket (spec.md section 6). */
const MESSAGE_TYPES = ['challenge', 'challenge-success', 'update', 'pong', 'error'];

/**
 * Sends pseudo-random requests and socket messages concurrently, and checks every response against spec.md
 * sections 1, 4, 6 and 7.
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
  let sent = 0;
  let cases = 0;
  await Promise.all(Array.from({ length: CONCURRENT_CLIENTS }, runClient));
  return { sent, statuses, problems };

  async function runClient(): Promise<void> {
    while (sent < count) {
      cases += 1;
      const name = `case ${cases}`;
      const random = seedRandom.fork(name);
      const kind = random.next();
      if (kind < SOCKET_CASE_SHARE) {
        await runSocket(random, name);
      } else if (kind < SOCKET_CASE_SHARE + FRAMING_CASE_SHARE) {
        const { bytes, mustBeAnswered } = generateFramingCase(random);
        await runRequest(name, { ...ANY_RESPONSE, bytes }, mustBeAnswered);
      } else {
        const request = generateRequestCase(random, targets);
        await runRequest(name, request, !request.isHuge);
      }
    }
  }

  async function runRequest(
    name: string,
    request: RequestCase,
    mustBeAnswered: boolean,
  ): Promise<void> {
    sent += 1;
    const { received, isClosed } = await sendAndReceive(origin, request.bytes, mustBeAnswered);
    const { responses, rest } = parseResponses(received, request.method === 'HEAD');
    const found = responses.flatMap((response) => findProblems(response, request));
    for (const { status } of responses) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    recordProblems(name, request.bytes, [
      ...found,
      ...(isClosed ? [] : ['the connection stayed open after the client closed it']),
      ...(mustBeAnswered && responses.length === 0 ? ['no response'] : []),
      ...(rest === '' || request.method === 'HEAD'
        ? []
        : [`incomplete response: ${JSON.stringify(rest.slice(0, 80))}`]),
    ]);
  }

  async function runSocket(random: SeededRandom, name: string): Promise<void> {
    const user = random.pick(targets.users);
    const { shouldAuthenticate, frames, isBroken, marker } = generateSocketCase(random, user);
    const bytes = Buffer.concat(frames);
    sent += frames.length;
    const raw = await RawWebSocket.connect(origin);
    const exchange = async () => {
      await raw.waitForText('"challenge"');
      if (shouldAuthenticate) {
        await raw.authenticate(user.wallet.signRequest(SOCKET_PATH));
      }
      raw.send(bytes);
      if (!isBroken) {
        raw.send(encodeFrame('{"type":"ping"}'));
        await raw.waitForText('"pong"');
        raw.connection.end();
      }
      await raw.waitForClose();
      return true;
    };
    const finished = exchange().catch(() => false);
    const isFinished = await Promise.race([
      finished,
      delay(RESPONSE_TIMEOUT_MS, false, { ref: false }),
    ]);
    raw.connection.destroy();
    const types = [...raw.received.matchAll(/\{"type":"([^"]*)"/g)].map(([, type = '']) => type);
    const unknown = types.filter((type) => !MESSAGE_TYPES.includes(type));
    recordProblems(name, bytes, [
      ...unknown.map((type) => `unknown message type: ${type}`),
      ...(isFinished ? [] : ['a socket stayed open or did not respond']),
      ...findLeaks(raw.received, marker),
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
 * Sends bytes on a new connection, closes the sending half when the server stops sending, and waits until the
 * server closes the connection.
 */
async function sendAndReceive(
  origin: string,
  bytes: Buffer,
  mustBeAnswered: boolean,
): Promise<{ received: string; isClosed: boolean }> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  // The server may reset the connection at any time. 'close' follows.
  socket.on('error', () => undefined);
  const chunks: Buffer[] = [];
  const closed = new Promise<boolean>((resolve) => socket.once('close', () => resolve(true)));
  let quiet = setTimeout(() => socket.end(), mustBeAnswered ? RESPONSE_TIMEOUT_MS : QUIET_MS);
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    clearTimeout(quiet);
    quiet = setTimeout(() => socket.end(), QUIET_MS);
  });
  await once(socket, 'connect');
  socket.write(bytes);
  const timeout = delay(2 * RESPONSE_TIMEOUT_MS, false, { ref: false });
  const isClosed = await Promise.race([closed, timeout]);
  clearTimeout(quiet);
  socket.destroy();
  return { received: Buffer.concat(chunks).toString('latin1'), isClosed };
}

interface RawResponse {
  status: number;
  headers: Headers;
  body: string;
}

/** Parses consecutive responses, each of which must have a known length. */
function parseResponses(text: string, isHead: boolean): { responses: RawResponse[]; rest: string } {
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
    const isBodiless = isHead || status < 200 || status === 204;
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

/** Returns the problems of a response. Empty: it is acceptable. */
function findProblems(response: RawResponse, request: Omit<RequestCase, 'bytes'>): string[] {
  const { status, headers, body } = response;
  const isBodiless = request.method === 'HEAD' || status === 204;
  const hasRetryAfter = /^[1-9]\d*$/.test(headers.get('retry-after') ?? '');
  const isExpected =
    request.allowedStatuses.includes(status) ||
    (request.mayBeUnparseable && status === 400) ||
    (request.hasPaymentToken && status === 500 && hasRetryAfter);
  const checks: [isRight: boolean, problem: string][] = [
    [isExpected, `status ${status}`],
    [headers.get('access-control-allow-origin') === '*', `${status} without the CORS header`],
    [
      status === 204 || /^application\/json\b/.test(headers.get('content-type') ?? ''),
      `${status} of type ${headers.get('content-type')}`,
    ],
    [
      /^creqA/.test(headers.get('x-cashu') ?? '') === (status === 402),
      `${status} with X-Cashu '${headers.get('x-cashu')}'`,
    ],
    [
      isBodiless || hasExpectedFormat(response, request),
      `${status} not in the format ${request.errorFormat}`,
    ],
  ];
  const text = `${[...headers.values()].join('\n')}\n${isBodiless ? '' : body}`;
  return [
    ...checks.filter(([isRight]) => !isRight).map(([, problem]) => problem),
    ...findLeaks(text, request.marker),
  ];
}

/** Whether a body is an error in the format of its endpoint, or a success that matches the API description. */
function hasExpectedFormat(response: RawResponse, request: Omit<RequestCase, 'bytes'>): boolean {
  const { errorFormat, method, target, mayBeUnparseable } = request;
  const body = parseObject(response.body);
  const isApiError = body['error'] === true && isText(body['message']);
  const isLnurlError = body['status'] === 'ERROR' && isText(body['reason']);
  if (!isApiError && !isLnurlError) {
    const isError = response.status >= 300 || Object.keys(body).length === 0;
    return (
      !isError && isDocumented(() => assertMatchesOpenApi(method, target, { ...response, body }))
    );
  }
  const keys = Object.keys(body).sort().join();
  const isOfBoth = isApiError && isLnurlError && keys === 'error,message,reason,status';
  const isOfApi = keys === 'error,message' && errorFormat !== 'lnurl' && errorFormat !== 'verify';
  const isOfLnurl = keys === 'reason,status' && errorFormat !== 'api' && errorFormat !== 'nip05';
  return isOfApi || isOfLnurl || (isOfBoth && (mayBeUnparseable || response.status === 431));
}

function isDocumented(check: () => void): boolean {
  try {
    check();
    return true;
  } catch {
    return false;
  }
}

function findLeaks(text: string, marker: string): string[] {
  // Base64 can match the pattern by chance.
  const leaked = INTERNALS_PATTERN.exec(text.replace(/(eyJ|creqA)[\w.=-]+/g, ''))?.[0];
  return [
    ...(leaked === undefined ? [] : [`reveals internals: ${JSON.stringify(leaked)}`]),
    ...(text.includes(marker) ? ['echoes client input'] : []),
  ];
}

function isText(value: unknown): boolean {
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
