import { HTTPAuth } from 'nostr-tools/kinds';
import type { ErrorCode } from '../../../../errors.ts';
import { waitUntilVisible } from '../pause.ts';
import { t } from '../translator.ts';
import { type SavedSession, sessionStore } from './browser-storage.ts';
import { type Signer, SignerError } from './signer.ts';

const TOKEN_PATH = '/api/v2/auth/nip98';

/** A connection may hang after the device slept. The server itself waits for a mint for up to 15 s. */
const RESPONSE_TIMEOUT_MS = 20_000;

export interface User {
  pubkey: string;
  name?: string;
  mintUrl: string;
  lockQuote: boolean;
  /** Only on a server for members. */
  member?: boolean;
}

/** A response with an error. The message is a sentence for the user. */
export class ApiError extends Error {
  readonly status: number;
  /** Null if the response is from a proxy: all errors of the server have a code. */
  readonly code: ErrorCode | null;
  readonly headers: Headers;

  constructor(status: number, code: ErrorCode | null, message: string, headers: Headers) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

interface ApiResponse<Data> {
  data: Data;
  /** Only responses with lists have it. */
  metadata: { total: number };
}

interface ApiRequest {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH';
  body?: object;
  headers?: Record<string, string>;
}

/** Calls the public API of this server. Gets a JWT with one signature (NIP-98), and saves it until the signal aborts. */
export class ApiClient {
  readonly #signer: Signer;
  readonly #signal: AbortSignal;
  readonly #isRestored: boolean;
  #pubkey: string | null = null;
  /** The JWT, or the request for one. Concurrent requests share it, so that the user signs once. */
  #token: Promise<string> | null = null;

  constructor(signer: Signer, signal: AbortSignal, session: SavedSession | null = null) {
    this.#signer = signer;
    this.#signal = signal;
    this.#isRestored = session !== null;
    signal.addEventListener('abort', () => sessionStore.save(null));
    if (session !== null) {
      this.#pubkey = session.pubkey;
      this.#token = Promise.resolve(session.token);
      sessionStore.save(session);
    }
  }

  /** Throws ApiError, SignerError, or, if the server did not respond, TypeError or TimeoutError. */
  async request<Data>(path: string, options: ApiRequest = {}): Promise<ApiResponse<Data>> {
    const response = await this.#send(path, options);
    // After the token has expired, the second attempt requests a new one.
    return readResponse(response.status === 401 ? await this.#send(path, options) : response);
  }

  async #send(path: string, { method = 'GET', body, headers }: ApiRequest): Promise<Response> {
    this.#token ??= this.#requestToken();
    const token = this.#token;
    // The token is awaited before the timeout starts, because the signer may take longer.
    const authorization = `Bearer ${await token}`;
    const response = await fetch(path, {
      method,
      // A change has no timeout, after which it would be unknown whether the change was made.
      signal: method === 'GET' ? AbortSignal.timeout(RESPONSE_TIMEOUT_MS) : null,
      headers: {
        authorization,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    // Forgets the expired token, unless a concurrent request has replaced it already.
    if (response.status === 401 && this.#token === token) {
      this.#token = null;
    }
    return response;
  }

  async #requestToken(): Promise<string> {
    try {
      // A restored session has no signer, and fails at once.
      if (this.#pubkey !== null && !this.#isRestored) {
        // In a hidden tab, the user would not see why the signer asks again.
        await waitUntilVisible();
      }
      const response = await fetch(TOKEN_PATH, {
        headers: { authorization: await this.#signRequest(`${location.origin}${TOKEN_PATH}`) },
        signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
      });
      const { token } = (await readResponse<{ token: string }>(response)).data;
      if (!this.#signal.aborted) {
        sessionStore.save({ token, pubkey: this.#pubkey ?? '' });
      }
      return token;
    } catch (error) {
      this.#token = null;
      throw error;
    }
  }

  async #signRequest(url: string): Promise<string> {
    const event = await this.#signer.signEvent({
      kind: HTTPAuth,
      created_at: Math.floor(Date.now() / 1_000),
      tags: [
        ['u', url],
        ['method', 'GET'],
      ],
      content: '',
    });
    this.#pubkey ??= event.pubkey;
    // With another key, the page would show the settings of one user and change those of another.
    if (event.pubkey !== this.#pubkey) {
      throw new SignerError(t('account.otherKey'));
    }
    return `Nostr ${btoa(JSON.stringify(event))}`;
  }
}

async function readResponse<Data>(response: Response): Promise<ApiResponse<Data>> {
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    const message = `${body?.message ?? t('account.status', { status: response.status })}`;
    // The pages say "5 sats", like most wallets.
    const shownMessage = message.replace(/\b(?!1 )(\d+) sat\b/g, '$1 sats');
    throw new ApiError(response.status, body?.code ?? null, shownMessage, response.headers);
  }
  // The response may be the login page of a Wi-Fi network. Like `fetch` without a response, this throws a TypeError.
  if (!body?.data) {
    throw new TypeError('The response is not from this server.');
  }
  return body;
}

export interface Session {
  api: ApiClient;
  user: User;
  onUserChange: (user: User) => void;
}
