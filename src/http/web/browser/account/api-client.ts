import type { ErrorCode } from '../../../../errors.ts';
import { type Signer, SignerError } from './signer.ts';

const TOKEN_PATH = '/api/v2/auth/nip98';

/** The kind of events that authenticate HTTP requests (NIP-98). */
const HTTP_AUTH_KIND = 27_235;

/**
 * A connection may hang after the device slept or changed its network. The server itself waits for a mint for up to 15 s.
 */
const RESPONSE_TIMEOUT_MS = 20_000;

/** The server's tokens are valid for 30 minutes. */
const TOKEN_LIFETIME_MS = 25 * 60_000;

export interface User {
  pubkey: string;
  name?: string;
  mintUrl: string;
  lockQuote: boolean;
}

export interface UserResponse {
  data: { user: User };
}

/** A response with an error. The message is a sentence for the user. */
export class ApiError extends Error {
  readonly status: number;
  /** Null if the response is not from this server, but from a proxy. */
  readonly code: ErrorCode | null;
  readonly headers: Headers;

  constructor(status: number, code: ErrorCode | null, message: string, headers: Headers) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

interface ApiRequest {
  method?: 'GET' | 'POST' | 'PATCH';
  body?: unknown;
  headers?: Record<string, string>;
}

/**
 * Calls the public API of this server for a signed-in user. Gets a JWT with one signature (NIP-98), and keeps it in
 * memory only.
 */
export class ApiClient {
  readonly #signer: Signer;
  /** The key that signed first. */
  #pubkey: string | null = null;
  #token: { value: Promise<string>; expiresAtMs: number } | null = null;

  constructor(signer: Signer) {
    this.#signer = signer;
  }

  /**
   * Returns the body of a successful response.
   *
   * @throws ApiError; TypeError or TimeoutError if the server did not respond
   */
  async request<Body>(path: string, options: ApiRequest = {}): Promise<Body> {
    let response = await this.#send(path, options);
    if (response.status === 401) {
      response = await this.#send(path, options);
    }
    return readBody(response);
  }

  /**
   * Signs a request (NIP-98).
   *
   * @returns the value of its `Authorization` header
   * @throws SignerError
   */
  async signRequest(url: string, method: string): Promise<string> {
    const event = await this.#signer.signEvent({
      kind: HTTP_AUTH_KIND,
      created_at: Math.floor(Date.now() / 1_000),
      tags: [
        ['u', url],
        ['method', method],
      ],
      content: '',
    });
    this.#pubkey ??= event.pubkey;
    // Otherwise the page would show the settings of one key and change those of another.
    if (event.pubkey !== this.#pubkey) {
      throw new SignerError('Your signer now uses another key. Sign out, then sign in again.');
    }
    return `Nostr ${btoa(JSON.stringify(event))}`;
  }

  async #send(path: string, { method = 'GET', body, headers = {} }: ApiRequest): Promise<Response> {
    const token = this.#getToken();
    const response = await fetch(path, {
      method,
      headers: {
        accept: 'application/json',
        authorization: `Bearer ${await token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(method === 'GET' && { signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS) }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    // A concurrent request may have replaced the token already.
    if (response.status === 401 && this.#token?.value === token) {
      this.#token = null;
    }
    return response;
  }

  /** Returns a valid JWT. Concurrent requests share it, so that the user signs once. */
  #getToken(): Promise<string> {
    if (this.#token === null || this.#token.expiresAtMs <= Date.now()) {
      const value = this.#requestToken();
      this.#token = { value, expiresAtMs: Date.now() + TOKEN_LIFETIME_MS };
      value.catch(() => {
        this.#token = null;
      });
    }
    return this.#token.value;
  }

  async #requestToken(): Promise<string> {
    const authorization = await this.signRequest(`${location.origin}${TOKEN_PATH}`, 'GET');
    const response = await fetch(TOKEN_PATH, {
      headers: { accept: 'application/json', authorization },
      signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
    });
    const { data } = await readBody<{ data: { token: string } }>(response);
    return data.token;
  }
}

async function readBody<Body>(response: Response): Promise<Body> {
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    const message = body?.message ?? `The server responded with status ${response.status}.`;
    throw new ApiError(response.status, body?.code ?? null, message, response.headers);
  }
  // For example the login page of a Wi-Fi network. Like no response, it throws a TypeError.
  if (!body?.data) {
    throw new TypeError('The response is not from this server.');
  }
  return body;
}
