import type { RawAnswer } from './raw-connection.ts';

/**
 * What answers must look like, read from spec.md sections 1, 4, 6 and 7: written once more here, on
 * purpose, and not taken from the code that is judged.
 */

/** How the endpoint of a path speaks. */
export type Speech = 'api' | 'lnurl' | 'verify' | 'nip05';

/** What may be answered to a request. */
export interface Expectation {
  /** Null: the request does not say for whom it is, so any of the dialects will do. */
  speech: Speech | null;
  statuses: readonly number[];
  /**
   * Whether it brings a token, which may be of a keyset that its mint has only just made: then 500 with
   * `Retry-After` is right, where the mint was asked for its keysets a moment ago.
   */
  isPaying?: boolean;
  /** Bytes that no HTTP parser has to understand: 400 in any dialect, and the end. */
  isUnreadable: boolean;
  /** Has no body, whatever its headers say. */
  isHead: boolean;
  /** Was in headers and bodies of the request, and must not come back. */
  marker: string;
}

/** Where an answer shows how the service is made. */
const INSIDE =
  /node_modules|\.(ts|js|cjs|mjs):\d|\n\s+at |\bat [\w.]+ \(|select .* from|insert into|FST_|ERR_|HPE_|ECONN|ENOTFOUND|EAI_|pglite|postgres|kysely|fastify|zod|file:\/\/|\/(home|usr|work|tmp|src|app)\/|<html|undefined|\[object/i;

const TOO_MANY = 429;
const HEADERS_TOO_LARGE = 431;

/** What is wrong with an answer; nothing where all is well. */
export function problemsOf(answer: RawAnswer, expected: Expectation): string[] {
  const problems = [...statusProblems(answer, expected), ...headerProblems(answer, expected)];
  const isEmpty = expected.isHead || answer.status === 204;
  return isEmpty ? problems : [...problems, ...bodyProblems(answer, expected)];
}

/** What is wrong with a message of the quote socket (spec.md section 6). */
export function messageProblems(text: string, marker: string): string[] {
  const message = parseJson(text);
  if (!isObject(message)) {
    return [`a message that is no JSON object: ${text.slice(0, 80)}`];
  }
  const { type, payload } = message;
  const isRight =
    (type === 'challenge' && isObject(payload) && isExactly(payload, ['method', 'url'])) ||
    (type === 'update' && isObject(payload) && isExactly(payload, ['quoteId'])) ||
    (type === 'error' && typeof payload === 'string') ||
    ((type === 'pong' || type === 'challenge-success') && payload === undefined);
  return [
    ...(isRight ? [] : [`no message of the specification: ${text.slice(0, 80)}`]),
    ...leaks(text, marker),
  ];
}

function statusProblems({ status, headers }: RawAnswer, expected: Expectation): string[] {
  const { statuses, isUnreadable, isPaying = false } = expected;
  const retryAfter = headers.get('retry-after') ?? '';
  const saysWhen = /^[1-9]\d*$/.test(retryAfter);
  const isExpected =
    statuses.includes(status) ||
    (isUnreadable && status === 400) ||
    (isPaying && status === 500 && saysWhen);
  if (!isExpected) {
    return [`status ${status}`];
  }
  return status === TOO_MANY && !saysWhen ? [`429 with Retry-After '${retryAfter}'`] : [];
}

function headerProblems({ status, headers }: RawAnswer, expected: Expectation): string[] {
  const problems: string[] = [];
  if (headers.get('access-control-allow-origin') !== '*') {
    problems.push(`${status} without the CORS header`);
  }
  if (status !== 204 && !/^application\/json\b/.test(headers.get('content-type') ?? '')) {
    problems.push(`${status} of type ${headers.get('content-type')}`);
  }
  const isRequestThere = /^creqA/.test(headers.get('x-cashu') ?? '');
  if (isRequestThere !== (status === 402)) {
    problems.push(`${status} with X-Cashu '${headers.get('x-cashu')}'`);
  }
  return [...problems, ...leaks([...headers.values()].join('\n'), expected.marker)];
}

function bodyProblems({ status, body }: RawAnswer, expected: Expectation): string[] {
  const parsed = parseJson(body);
  const speeches: readonly Speech[] =
    expected.speech === null ? ['api', 'lnurl', 'verify', 'nip05'] : [expected.speech];
  const isCutOff = expected.isUnreadable || status === HEADERS_TOO_LARGE;
  const isSpoken =
    isObject(parsed) &&
    (speeches.some((speech) => speaks(speech, status, parsed)) ||
      (isCutOff && isErrorForAnybody(parsed)));
  const problems = isSpoken ? [] : [`${status} is not said as ${speeches.join(' or ')}`];
  return [...problems, ...leaks(body, expected.marker)];
}

function speaks(speech: Speech, status: number, body: Record<string, unknown>): boolean {
  switch (speech) {
    case 'api':
      return status < 300 ? body['error'] === false && isObject(body['data']) : isApiError(body);
    case 'nip05':
      return (status === 200 && isNip05(body)) || isApiError(body);
    case 'verify':
      return (status === 200 && body['status'] === 'OK') || isLnurlError(body);
    case 'lnurl':
      return (status === 200 && isLnurlSuccess(body)) || isLnurlError(body);
  }
}

function isApiError(body: Record<string, unknown>): boolean {
  return isExactly(body, ['error', 'message']) && body['error'] === true && isText(body['message']);
}

function isLnurlError(body: Record<string, unknown>): boolean {
  return (
    isExactly(body, ['reason', 'status']) && body['status'] === 'ERROR' && isText(body['reason'])
  );
}

/** Where the request could not be read as far as to tell who asks. */
function isErrorForAnybody(body: Record<string, unknown>): boolean {
  const { error, message, status, reason, ...others } = body;
  return (
    isExactly(others, []) && isApiError({ error, message }) && isLnurlError({ status, reason })
  );
}

function isLnurlSuccess(body: Record<string, unknown>): boolean {
  return (
    (body['tag'] === 'payRequest' && isText(body['callback'])) ||
    (isText(body['pr']) && isText(body['verify']) && Array.isArray(body['routes']))
  );
}

function isNip05(body: Record<string, unknown>): boolean {
  return (
    isExactly(body, ['names', 'relays']) && isObject(body['names']) && isObject(body['relays'])
  );
}

function leaks(text: string, marker: string): string[] {
  // By chance, base64 says anything.
  const shown = INSIDE.exec(text.replace(/(eyJ|creqA)[\w.=-]+/g, ''))?.[0];
  return [
    ...(shown === undefined ? [] : [`shows the inside: ${JSON.stringify(shown)}`]),
    ...(text.includes(marker) ? ['repeats what the client sent'] : []),
  ];
}

function isExactly(body: Record<string, unknown>, keys: readonly string[]): boolean {
  return Object.keys(body).sort().join() === keys.join();
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
