import { randomBytes } from 'node:crypto';
import type { ReachedAs, ReachProof } from '../../auth/reach-proof.ts';
import { type Clock, toUnixSeconds } from '../../domain/clock.ts';
import { type Finding, warning } from '../../domain/finding.ts';
import { parseJson } from '../../domain/foreign-text.ts';
import type { Listenable } from '../../net/free-port.ts';
import type { SocketConnector } from '../../net/guarded-socket.ts';
import type { OwnAnswer, OwnFetch } from '../../net/own-fetch.ts';

/** Where a service listens, or could. */
export interface ListeningPlace {
  host: string;
  port: number;
  /** From this machine, such as `http://127.0.0.1:3000`. */
  url: string;
}

/** Who asks. */
export interface OriginParts {
  fetch: OwnFetch;
  connect: SocketConnector;
  /** Null where the service's secret is not known, because there is none yet. */
  reachProof: ReachProof | null;
  tryToListen: (host: string, port: number) => Promise<Listenable>;
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

/** What says that somebody asks too often. */
export const TOO_MANY_REQUESTS = 429;

/** Where this machine asks too often, nothing else can be found out. @param where was asked */
export function limited(where: string): Finding {
  return warning(
    'origin.limited',
    `${where} refuses this machine, which asks too often (status ${TOO_MANY_REQUESTS}): not everything could be looked at`,
    'Wait a minute, and run `nutpost doctor` again. LIMIT_REQUESTS is the limit of the service; a proxy may have its own.',
  );
}

/** Whether an answer says that somebody asks too often. */
export function isLimited(answer: OwnAnswer): boolean {
  return answer.outcome === 'answered' && answer.status === TOO_MANY_REQUESTS;
}

/** The answer's status, or why there is none. */
export function statusOf(answer: OwnAnswer): string {
  return answer.outcome === 'answered' ? `status ${answer.status}` : answer.reason;
}
