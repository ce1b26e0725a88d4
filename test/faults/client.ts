import { setTimeout as delay } from 'node:timers/promises';
import { UndescribedAnswer } from '../helpers/api-description.ts';
import { type ApiAnswer, request } from '../helpers/wallet.ts';
import type { Findings } from './findings.ts';

/** Where answers that are not in their dialect are noted. */
type DialectFindings = Pick<Findings<'dialect'>, 'note'>;

/** A mint that says nothing is given up after 12 s, and one that is busy is asked once more. */
const ANSWER_TIMEOUT_MS = 30_000;

/** Asks the processes of the service, one of which may be killed at any moment. */
export class Client {
  readonly #findings: DialectFindings;

  constructor(findings: DialectFindings) {
    this.#findings = findings;
  }

  /**
   * Asks once. An answer that does not speak as spec.md says is a finding.
   *
   * @param init as of `fetch`; a GET without headers where it is absent
   * @returns null where no answer came, or only a part of one
   */
  async ask(origin: string, path: string, init: RequestInit = {}): Promise<ApiAnswer | null> {
    let answer: ApiAnswer;
    try {
      const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
      const signal = AbortSignal.any([timeout, ...(init.signal ? [init.signal] : [])]);
      answer = await request(origin, path, { ...init, signal });
    } catch (error) {
      if (error instanceof SyntaxError) {
        this.#findings.note('dialect', `${withoutSecret(path)} was answered with no JSON`);
      }
      if (error instanceof UndescribedAnswer) {
        this.#findings.note('dialect', error.message);
      }
      return null;
    }
    if (!isInDialect(path, answer)) {
      const body = JSON.stringify(answer.body).slice(0, 200);
      this.#findings.note('dialect', `${withoutSecret(path)}: ${answer.status} ${body}`);
    }
    return answer;
  }
}

/** Waits, and no longer than to the signal. @returns whether to go on */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}

/** Whether it is a success, or an error in the format of its API (spec.md sections 1 and 7). */
function isInDialect(path: string, { status, headers, body }: ApiAnswer): boolean {
  if (path.startsWith('/api/')) {
    const isRequestThere = /^creqA/.test(headers.get('x-cashu') ?? '');
    return status === 200 || status === 201
      ? body?.error === false
      : body?.error === true &&
          typeof body.message === 'string' &&
          isRequestThere === (status === 402);
  }
  if (path.startsWith('/.well-known/nostr.json')) {
    return status === 200 && typeof body?.names === 'object';
  }
  const isError = body?.status === 'ERROR' && typeof body.reason === 'string';
  const isWithoutAmount = !path.includes('?');
  const isOffer = isWithoutAmount && body?.tag === 'payRequest';
  const isSuccess = status === 200 && (isOffer || typeof body?.pr === 'string');
  const isLimit = status === 429 && headers.has('retry-after');
  return isSuccess || ((status === 200 || status === 500 || isLimit) && isError);
}

function withoutSecret(path: string): string {
  return path.replace(/[?].*$/, '').replace(/[0-9a-f]{64}/, '…');
}
