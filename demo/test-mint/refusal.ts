import type { MintStyle } from './switches.ts';

/** An HTTP answer, ready to be sent. */
export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

interface Particulars {
  /** Default 400. */
  status?: number;
  /** The code and text of cdk, if it has others than Nutshell. */
  cdk?: readonly [code: number, detail: string];
  /** Sent as `Retry-After`. */
  retryAfterSeconds?: number | undefined;
}

/** Why the mint does not do what it was asked to, with the code of the NUTs (error_codes.md). */
export class MintRefusal extends Error {
  override readonly name = 'MintRefusal';
  readonly #code: number;
  readonly #particulars: Particulars;

  constructor(code: number, detail: string, particulars: Particulars = {}) {
    super(detail);
    this.#code = code;
    this.#particulars = particulars;
  }

  /** Renders the refusal as a mint of this style sends it. */
  toAnswer(style: MintStyle): HttpAnswer {
    const { status = 400, cdk, retryAfterSeconds } = this.#particulars;
    const nutshell = [this.#code, this.message] as const;
    const [code, detail] = style === 'cdk' ? (cdk ?? nutshell) : nutshell;
    const answer = jsonAnswer(status, { detail, code });
    if (retryAfterSeconds !== undefined) {
      answer.headers['retry-after'] = String(retryAfterSeconds);
    }
    return answer;
  }
}

/** No such route: Nutshell's framework says so, cdk's says nothing. */
export function notFound(): MintRefusal {
  return new MintRefusal(0, 'Not Found', { status: 404, cdk: [0, ''] });
}

export function busy(): MintRefusal {
  return new MintRefusal(0, 'failed to acquire database lock', { status: 500 });
}

export function rateLimited(retryAfterSeconds?: number): MintRefusal {
  return new MintRefusal(0, 'Rate limit exceeded.', { status: 429, retryAfterSeconds });
}

export function jsonAnswer(status: number, value: unknown): HttpAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  };
}
