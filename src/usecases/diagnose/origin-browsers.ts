import { type Finding, ok, problem } from '../../domain/finding.ts';
import type { OwnAnswer, OwnFetch } from '../../net/own-fetch.ts';
import { isLimited, limited, statusOf } from './reach.ts';

/** Some web wallet. */
const PAGE = 'https://wallet.example';

/** What wallets in browsers send with a purchase. */
const SENT_HEADERS = ['authorization', 'content-type', 'x-cashu'];

const HINT =
  'Have the proxy pass on OPTIONS requests and leave the Access-Control-* headers alone: the service sets them, and twice is as bad as never.';

/** Looks whether web pages may call the API at an origin, and read its answers (CORS). */
export async function checkBrowsers(origin: string, fetch: OwnFetch): Promise<Finding[]> {
  const [preflight, refusal] = await Promise.all([
    fetch.request({
      method: 'OPTIONS',
      url: `${origin}/api/v2/user/username`,
      headers: {
        origin: PAGE,
        'access-control-request-method': 'POST',
        'access-control-request-headers': SENT_HEADERS.join(','),
      },
    }),
    // Without a signature: errors have to be readable too.
    fetch.request({
      method: 'GET',
      url: `${origin}/api/v2/user/info`,
      headers: { origin: PAGE },
    }),
  ]);
  if (isLimited(refusal)) {
    return [limited(origin)];
  }
  const wrong = [
    isPreflightRight(preflight) ? null : `the preflight is answered ${told(preflight)}`,
    isReadable(refusal) ? null : `answers cannot be read by them, ${told(refusal)}`,
  ].filter((each) => each !== null);
  return [
    wrong.length === 0
      ? ok('browsers.allowed', `Wallets in browsers may use ${origin} (CORS)`)
      : problem(
          'browsers.refused',
          `Wallets in browsers cannot use ${origin} (CORS): ${wrong.join('; ')}`,
          HINT,
        ),
  ];
}

function isPreflightRight(answer: OwnAnswer): boolean {
  const allowed = headerOf(answer, 'access-control-allow-headers').toLowerCase();
  return (
    answer.outcome === 'answered' &&
    answer.status < 300 &&
    headerOf(answer, 'access-control-allow-origin') === '*' &&
    SENT_HEADERS.every((name) => allowed.includes(name))
  );
}

/** Once: a browser takes `*, *` for nothing. */
function isReadable(answer: OwnAnswer): boolean {
  return (
    answer.outcome === 'answered' &&
    answer.status === 401 &&
    headerOf(answer, 'access-control-allow-origin') === '*' &&
    headerOf(answer, 'access-control-expose-headers').toLowerCase().includes('x-cashu')
  );
}

function told(answer: OwnAnswer): string {
  const allowed = headerOf(answer, 'access-control-allow-origin') || 'none';
  return `with ${statusOf(answer)} and Access-Control-Allow-Origin: ${allowed}`;
}

function headerOf(answer: OwnAnswer, name: string): string {
  return answer.outcome === 'answered' ? (answer.headers.get(name) ?? '') : '';
}
