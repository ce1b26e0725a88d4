import { getErrorFormat } from '../../src/http/errors.ts';
import type { CheckRecorder } from '../faults/check-recorder.ts';
import type { TryRequest } from '../faults/storm-client.ts';
import { type ApiResponse, fetchJson } from '../helpers/recipients/recipient-client.ts';
import {
  assertMatchesOpenApi,
  UndocumentedResponseError,
} from '../helpers/service/openapi-validator.ts';
import { isProxyError } from './front-proxy.ts';

/** Longer than the service may take to respond or to report that the database is unavailable. */
const RESPONSE_TIMEOUT_MS = 15_000;

/** How a request ended, as its client sees it. */
type Outcome =
  | 'success'
  /** 503 with `Retry-After` from the service. */
  | 'unavailable'
  /** 503 with `Retry-After` from the proxy. */
  | 'proxy error'
  | 'connection closed'
  | 'no response'
  | 'wrong response';

/** Sends requests, and counts how they end. */
export class RequestLog {
  readonly counts: Record<Outcome, number> = {
    success: 0,
    unavailable: 0,
    'proxy error': 0,
    'connection closed': 0,
    'no response': 0,
    'wrong response': 0,
  };
  readonly #checkRecorder: CheckRecorder;
  readonly #failureTimesMs: number[] = [];

  constructor(checkRecorder: CheckRecorder) {
    this.#checkRecorder = checkRecorder;
  }

  get failureCount(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count) - this.counts.success;
  }

  /** The time from the first to the last failed request. */
  get failureSpanMs(): number {
    return (this.#failureTimesMs.at(-1) ?? 0) - (this.#failureTimesMs[0] ?? 0);
  }

  /** Sends a request. Returns the response if it is a success, otherwise null. */
  readonly request: TryRequest = async (origin, path, init = {}) => {
    const response = await this.#requestAndCount(origin, path, init);
    if (response === null) {
      this.#failureTimesMs.push(performance.now());
    }
    return response;
  };

  async #requestAndCount(
    origin: string,
    path: string,
    init: RequestInit,
  ): Promise<ApiResponse | null> {
    const startedAt = new Date().toISOString();
    const timeout = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
    let response: ApiResponse;
    try {
      response = await fetchJson(origin, path, { ...init, signal: timeout });
    } catch (error) {
      if (error instanceof SyntaxError) {
        this.#addWrong(path, `no JSON: ${error.message}`);
      } else if (timeout.aborted) {
        this.counts['no response'] += 1;
        const problem = `${describePath(path)} at ${startedAt}: no response in ${RESPONSE_TIMEOUT_MS / 1000} s`;
        this.#checkRecorder.addProblem('outcomes', problem);
      } else {
        this.counts['connection closed'] += 1;
      }
      return null;
    }
    const problem = findProblem(init.method ?? 'GET', path, response);
    if (problem !== null) {
      this.#addWrong(path, `${problem} at ${startedAt}`);
      return null;
    }
    const outcome = classify(response);
    this.counts[outcome] += 1;
    return outcome === 'success' ? response : null;
  }

  #addWrong(path: string, problem: string): void {
    this.counts['wrong response'] += 1;
    this.#checkRecorder.addProblem('outcomes', `${describePath(path)}: ${problem}`);
  }
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

function classify({ status, body }: ApiResponse): Outcome {
  if (isProxyError(body)) {
    return 'proxy error';
  }
  return status === 503 || body.error === true ? 'unavailable' : 'success';
}

/** Removes the recipient and the token from a path. */
function describePath(path: string): string {
  return path.replace(/npub1\w+/, '{user}').replace(/[0-9a-f]{64}/, '{token}');
}
