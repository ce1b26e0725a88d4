import { randomBytes } from 'node:crypto';
import type { ReachedAs, ReachProof } from '../../auth/reach-proof.ts';
import { type Clock, toUnixSeconds } from '../../domain/clock.ts';
import { parseJson } from '../../domain/foreign-text.ts';
import type { SocketConnector } from '../../net/guarded-socket.ts';
import type { OwnAnswer, OwnFetch } from '../../net/own-fetch.ts';

/** Who asks. */
export interface OriginParts {
  fetch: OwnFetch;
  connect: SocketConnector;
  /** Null where the service's secret is not known, because there is none yet. */
  reachProof: ReachProof | null;
  /** Whether a service could listen at the local address; else the system's code for why not. */
  tryToListen: () => Promise<string>;
  clock: Clock;
}

/** What came of asking whether an address leads to this service. */
export type Reached =
  | { outcome: 'reached'; seen: ReachedAs }
  /** Somebody answered, and it was not this service. */
  | { outcome: 'elsewhere'; status: number; location: string | null }
  | { outcome: 'unreachable'; reason: string };

/** As much as nobody can guess. */
const NONCE_BYTES = 16;

/**
 * Asks an address whether it is this service.
 *
 * @param headers beside those of the question
 */
export async function reach(
  base: string,
  headers: Readonly<Record<string, string>>,
  { fetch, reachProof, clock }: Pick<OriginParts, 'fetch' | 'reachProof' | 'clock'>,
): Promise<Reached> {
  const nonce = randomBytes(NONCE_BYTES).toString('hex');
  const question = await reachProof?.ask(nonce, toUnixSeconds(clock()));
  const answer = await fetch.request({
    method: 'GET',
    url: `${base}/api/v2/reach`,
    headers: { ...headers, ...(question !== undefined && { authorization: `Bearer ${question}` }) },
  });
  if (answer.outcome === 'unreachable') {
    return answer;
  }
  const seen = await reachProof?.read(reachIn(answer.text), nonce, toUnixSeconds(clock()));
  return seen == null
    ? {
        outcome: 'elsewhere',
        status: answer.status,
        location: answer.headers.get('location') ?? null,
      }
    : { outcome: 'reached', seen };
}

function reachIn(text: string): string {
  const body = parseJson(text) as { data?: { reach?: unknown } } | null | undefined;
  return typeof body?.data?.reach === 'string' ? body.data.reach : '';
}

/** The answer's status, or why there is none. */
export function statusOf(answer: OwnAnswer): string {
  return answer.outcome === 'answered' ? `status ${answer.status}` : answer.reason;
}
