import type { MintStyle } from './switches.ts';

export interface HttpResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
}

interface RejectionOptions {
  /** Default 400. */
  status?: number;
  /** The code and text that cdk sends, if they differ from Nutshell's. */
  cdk?: readonly [code: number, detail: string];
  /** Sent as `Retry-After`. */
  retryAfterSeconds?: number | undefined;
}

/** An error that the mint returns to the client, with a code from the NUTs (error_codes.md). */
export class MintRejection extends Error {
  override readonly name = 'MintRejection';
  readonly #code: number;
  readonly #options: RejectionOptions;

  constructor(code: number, detail: string, options: RejectionOptions = {}) {
    super(detail);
    this.#code = code;
    this.#options = options;
  }

  /** Renders the rejection as a mint of this style sends it. */
  toHttpResponse(style: MintStyle): HttpResponse {
    const { status = 400, cdk, retryAfterSeconds } = this.#options;
    const nutshell = [this.#code, this.message] as const;
    const [code, detail] = style === 'cdk' ? (cdk ?? nutshell) : nutshell;
    const response = jsonResponse(status, { detail, code });
    if (retryAfterSeconds !== undefined) {
      response.headers['retry-after'] = String(retryAfterSeconds);
    }
    return response;
  }
}

/** The rejection of an unknown route. Nutshell sends the text `Not Found`, cdk sends an empty text. */
export function notFound(): MintRejection {
  return new MintRejection(0, 'Not Found', { status: 404, cdk: [0, ''] });
}

export function databaseBusy(): MintRejection {
  return serverError(500, 'failed to acquire database lock');
}

export function serverError(status: number, detail: string): MintRejection {
  return new MintRejection(0, detail, { status });
}

export function keysetExpired(): MintRejection {
  return new MintRejection(12003, 'Keyset has expired');
}

export function rateLimited(retryAfterSeconds?: number): MintRejection {
  return new MintRejection(0, 'Rate limit exceeded.', { status: 429, retryAfterSeconds });
}

export function jsonResponse(status: number, value: unknown): HttpResponse {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  };
}
