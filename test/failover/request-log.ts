import { getErrorFormat } from '../../src/http/errors.ts';
import { measureSlowness } from '../helpers/machine-slowness.ts';
import { type ApiResponse, fetchJson } from '../helpers/recipients/recipient-client.ts';
import {
  assertMatchesOpenApi,
  UndocumentedResponseError,
} from '../helpers/service/openapi-validator.ts';
import type { TryRequest } from '../helpers/traffic/payment-traffic.ts';
import { isProxyError } from './front-proxy.ts';

/** Longer than the service may take to respond or to report that the database is unavailable. */
const RESPONSE_TIMEOUT_MS = Math.ceil(15_000 * measureSlowness());

/** Sends requests, and records when they fail. A failure is a problem unless it is 503 or a closed connection. */
export class RequestLog {
  readonly problems: string[] = [];
  readonly #failureTimesMs: number[] = [];

  get failureCount(): number {
    return this.#failureTimesMs.length;
  }

  /** The time from the first to the last failed request. */
  get failureSpanMs(): number {
    return (this.#failureTimesMs.at(-1) ?? 0) - (this.#failureTimesMs[0] ?? 0);
  }

  readonly request: TryRequest = async (origin, path, init = {}) => {
    const startedAt = new Date().toISOString();
    const timeout = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
    let response: ApiResponse | null = null;
    let problem: string | null = null;
    try {
      response = await fetchJson(origin, path, { ...init, signal: timeout });
    } catch (error) {
      if (error instanceof SyntaxError || timeout.aborted) {
        problem = String(error);
      }
    }
    problem ??= response && findProblem(init.method ?? 'GET', path, response);
    if (problem !== null) {
      this.problems.push(`${describePath(path)} at ${startedAt}: ${problem}`);
    }
    if (problem !== null || response?.status !== 200 || response.body.error === true) {
      this.#failureTimesMs.push(performance.now());
      return null;
    }
    return response;
  };
}

/** Returns null if a client can understand the response. */
function findProblem(method: string, path: string, response: ApiResponse): string | null {
  const { status, headers, body } = response;
  const problem = `status ${status}, ${JSON.stringify(body)}`;
  if (status === 503 && !/^[1-9]\d*$/.test(headers.get('retry-after') ?? '')) {
    return `${problem}, without Retry-After`;
  }
  if (status === 503 && isProxyError(body)) {
    return null;
  }
  try {
    assertMatchesOpenApi(method, path, response);
  } catch (error) {
    if (error instanceof UndocumentedResponseError) {
      return error.message;
    }
    throw error;
  }
  const isFailedLookup = status === 200 && getErrorFormat(path) === 'nip05';
  const isError = body.error === true || body.status === 'ERROR';
  const isAllowed = status === 503 || (status === 200 && (!isError || isFailedLookup));
  return isAllowed ? null : problem;
}

function describePath(path: string): string {
  return path.replace(/npub1\w+/, '{user}').replace(/[0-9a-f]{64}/, '{token}');
}
