import type { RawAnswer } from './raw-connection.ts';

/** Checks responses against spec.md sections 1, 4, 6 and 7, independently of the service's code. */

/** The response format of an endpoint. */
export type Speech = 'api' | 'lnurl' | 'verify' | 'nip05';

/** The acceptable responses to a request. */
export interface Expectation {
  /** Null if the request does not show which endpoint it means; then any format is accepted. */
  speech: Speech | null;
  statuses: readonly number[];
  /** Carries a token, whose mint may have to be asked again: 500 with `Retry-After` is accepted. */
  isPaying?: boolean;
  /** Bytes that an HTTP parser may reject with 400 in any format. */
  isUnreadable: boolean;
  isHead: boolean;
  /** A string of the request that must not be echoed. */
  marker: string;
}

type Json = Record<string, unknown>;

/** Text that reveals internals of the service. */
const INTERNALS =
  /node_modules|\.(ts|js|cjs|mjs):\d|\n\s+at |\bat [\w.]+ \(|select .* from|insert into|FST_|ERR_|HPE_|ECONN|ENOTFOUND|EAI_|sqlite|postgres|kysely|fastify|zod|file:\/\/|\/(home|usr|work|tmp|src|app)\/|<html|undefined|\[object/i;

/** Returns the problems of a response; none if it is acceptable. */
export function problemsOf(answer: RawAnswer, expected: Expectation): string[] {
  const { status, headers, body } = answer;
  const hasBody = !expected.isHead && status !== 204;
  const retries = /^[1-9]\d*$/.test(headers.get('retry-after') ?? '');
  const isExpected =
    expected.statuses.includes(status) ||
    (expected.isUnreadable && status === 400) ||
    (expected.isPaying === true && status === 500 && retries);
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
    [!hasBody || hasFormat(answer, expected), `${status} not in the format ${expected.speech}`],
  ];
  return [
    ...checks.filter(([isRight]) => !isRight).map(([, problem]) => problem),
    ...leaks(`${[...headers.values()].join('\n')}\n${hasBody ? body : ''}`, expected.marker),
  ];
}

/** Returns the problems of a message of the quote socket (spec.md section 6). */
export function messageProblems(text: string, marker: string): string[] {
  const { type, payload } = parseObject(text) ?? {};
  const fields = isObject(payload) ? Object.keys(payload).sort().join() : typeof payload;
  const isRight =
    (type === 'challenge' && fields === 'method,url') ||
    (type === 'update' && fields === 'quoteId') ||
    (type === 'error' && fields === 'string') ||
    ((type === 'pong' || type === 'challenge-success') && fields === 'undefined');
  const problems = isRight ? [] : [`an unknown message: ${text.slice(0, 80)}`];
  return [...problems, ...leaks(text, marker)];
}

function hasFormat({ status, body }: RawAnswer, expected: Expectation): boolean {
  const parsed = parseObject(body);
  if (parsed === null) {
    return false;
  }
  const isCutOff = expected.isUnreadable || status === 431;
  const speeches: readonly Speech[] =
    expected.speech === null ? ['api', 'lnurl', 'verify', 'nip05'] : [expected.speech];
  return (
    (isCutOff && isErrorOfBoth(parsed)) ||
    speeches.some((speech) => isSuccess(speech, status, parsed) || isError(speech, status, parsed))
  );
}

function isSuccess(speech: Speech, status: number, body: Json): boolean {
  switch (speech) {
    case 'api':
      return status < 300 && body['error'] === false && isObject(body['data']);
    case 'nip05':
      return status === 200 && isObject(body['names']) && isObject(body['relays']);
    case 'verify':
      return status === 200 && body['status'] === 'OK';
    case 'lnurl':
      return status === 200 && (isText(body['callback']) || isText(body['pr']));
  }
}

function isError(speech: Speech, status: number, body: Json): boolean {
  return speech === 'api' || speech === 'nip05'
    ? isApiError(body) && (speech === 'nip05' || status >= 300)
    : isLnurlError(body);
}

function isApiError(body: Json): boolean {
  return hasKeys(body, 'error,message') && body['error'] === true && isText(body['message']);
}

function isLnurlError(body: Json): boolean {
  return hasKeys(body, 'reason,status') && body['status'] === 'ERROR' && isText(body['reason']);
}

/** The error for a request that cannot be read far enough to choose a format. */
function isErrorOfBoth({ error, message, status, reason, ...others }: Json): boolean {
  return hasKeys(others, '') && isApiError({ error, message }) && isLnurlError({ status, reason });
}

function leaks(text: string, marker: string): string[] {
  // Base64 contains anything by chance.
  const shown = INTERNALS.exec(text.replace(/(eyJ|creqA)[\w.=-]+/g, ''))?.[0];
  return [
    ...(shown === undefined ? [] : [`reveals internals: ${JSON.stringify(shown)}`]),
    ...(text.includes(marker) ? ['echoes what the client sent'] : []),
  ];
}

function hasKeys(body: Json, keys: string): boolean {
  return Object.keys(body).sort().join() === keys;
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseObject(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
