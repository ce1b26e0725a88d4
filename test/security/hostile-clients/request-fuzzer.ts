import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { assertMatchesOpenApi } from '../../helpers/service/openapi-validator.ts';
import { generateFramingCase } from './malformed-framing-cases.ts';
import {
  type FuzzTargets,
  generateRequestCase,
  type RequestCase,
} from './malformed-request-cases.ts';

const CONCURRENT_CLIENTS = 64;

const FRAMING_CASE_SHARE = 0.1;

const RESPONSE_TIMEOUT_MS = 15_000;

/** How long the client waits for more data before it closes its side of the connection. */
const IDLE_TIMEOUT_MS = 150;

/** What the service may answer. 500 with `Retry-After` is for a token whose mint is unavailable. */
const EXPECTED_STATUSES = [200, 201, 204, 400, 401, 402, 404, 405, 408, 413, 429, 431];

const INTERNALS_PATTERN =
  /node_modules|\.(ts|js|cjs|mjs):\d|\n\s+at |\bat [\w.]+ \(|select .* from|insert into|FST_|ERR_|HPE_|ECONN|ENOTFOUND|EAI_|sqlite|postgres|kysely|fastify|zod|file:\/\/|\/(home|usr|work|tmp|src|app)\/|<html|undefined|\[object/i;

/** Base64 in responses, which can match the pattern above by chance: JWTs and payment requests. */
const BASE64_PATTERN = /(eyJ|creqA)[\w.+/=-]+/g;

export class RequestFuzzer {
  readonly problems = new Map<string, string>();
  readonly #random: SeededRandom;
  readonly #origin: string;
  readonly #targets: FuzzTargets;
  #sentCount = 0;
  #caseCount = 0;

  constructor(random: SeededRandom, origin: string, targets: FuzzTargets) {
    this.#random = random;
    this.#origin = origin;
    this.#targets = targets;
  }

  async sendUntil(count: number): Promise<void> {
    const runClient = async () => {
      while (this.#sentCount < count) {
        this.#caseCount += 1;
        await this.#testCase(this.#random.fork(`case ${this.#caseCount}`));
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_CLIENTS }, runClient));
  }

  async #testCase(random: SeededRandom): Promise<void> {
    if (random.chance(FRAMING_CASE_SHARE)) {
      const framing = generateFramingCase(random);
      await this.#testRequest({ ...framing, method: 'GET', target: '', marker: 'no marker' });
    } else {
      await this.#testRequest(generateRequestCase(random, this.#targets));
    }
  }

  async #testRequest(request: RequestCase): Promise<void> {
    const { bytes, method, isResponseRequired } = request;
    this.#sentCount += 1;
    const { received, isClosed } = await sendAndReceive(this.#origin, bytes, isResponseRequired);
    const { responses, rest } = parseResponses(received, method === 'HEAD');
    this.#recordProblems(bytes, [
      ...responses.flatMap((response) => findProblems(response, request)),
      ...(isClosed ? [] : ['the connection stayed open after the client closed it']),
      ...(isResponseRequired && responses.length === 0 ? ['no response'] : []),
      ...(rest === '' || method === 'HEAD'
        ? []
        : [`incomplete response: ${JSON.stringify(rest.slice(0, 80))}`]),
    ]);
  }

  #recordProblems(bytes: Buffer, problems: readonly string[]): void {
    for (const problem of problems.filter((each) => !this.problems.has(each))) {
      this.problems.set(problem, bytes.toString('latin1', 0, 300));
    }
  }
}

async function sendAndReceive(origin: string, bytes: Buffer, isResponseRequired: boolean) {
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

/** Parses consecutive responses. The rest begins with the first that is incomplete or has no length. */
function parseResponses(text: string, isHeadRequest: boolean) {
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

function findProblems(response: RawResponse, { method, target, marker }: RequestCase): string[] {
  const { status, headers, body } = response;
  const contentType = headers.get('content-type') ?? '';
  const isBodiless = method === 'HEAD' || status === 204;
  const isExpected =
    EXPECTED_STATUSES.includes(status) ||
    (status === 500 && /^[1-9]\d*$/.test(headers.get('retry-after') ?? ''));
  const isPage = /^text\/html\b/.test(contentType);
  const isJson = /^application\/json\b/.test(contentType);
  const hasPaymentRequest = /^creqA/.test(headers.get('x-cashu') ?? '');
  const checks: [isCorrect: boolean, problem: string][] = [
    [isExpected, `status ${status}`],
    [isPage || headers.get('access-control-allow-origin') === '*', `${status} without CORS header`],
    [isPage || status === 204 || isJson, `${status} of type ${contentType}`],
    [hasPaymentRequest === (status === 402), `${status} with X-Cashu ${headers.get('x-cashu')}`],
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

function isErrorOrDocumented(response: RawResponse, method: string, target: string): boolean {
  try {
    const body = JSON.parse(response.body);
    const isError =
      (body.error === true && body.message > '') || (body.status === 'ERROR' && body.reason > '');
    if (!isError) {
      assertMatchesOpenApi(method, target, { ...response, body });
    }
    return isError || response.status < 300;
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
