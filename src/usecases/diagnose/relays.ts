import type { Clock } from '../../domain/clock.ts';
import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import { parseJson, printable } from '../../domain/foreign-text.ts';
import type { SocketConnector } from '../../net/guarded-socket.ts';
import { type ProbedSocket, probeSocket } from '../../net/socket-probe.ts';
import type { DatabaseContents } from '../../store/examination-store.ts';
import type { ToldTimes } from './clock.ts';
import { adviceOn } from './reasons.ts';
import { socketTrouble } from './socket-trouble.ts';

/** The relays of the settings, and what is known of them. */
export interface RelaysToCheck {
  relays: readonly string[];
  /** Whether there is a key that relays can ask for (NIP-42). */
  hasZapKey: boolean;
  /** What became of what they were sent; null: the database was not reached. */
  known: DatabaseContents['relays'] | null;
}

/** Who opens the sockets, and what they tell of the time. */
export interface RelayParts {
  connect: SocketConnector;
  times: ToldTimes;
  clock: Clock;
}

/** For relay lists, which every relay has some of: what NIP-65 lookups ask for. */
const QUESTION = JSON.stringify(['REQ', 'doctor', { kinds: [10_002], limit: 1 }]);

/** One failure is nothing: relays restart, and networks break. */
const MANY_FAILURES = 3;

/** Looks at the relays that get every receipt, and are asked where recipients are found. */
export async function checkRelays(check: RelaysToCheck, parts: RelayParts): Promise<Finding[]> {
  const found = await Promise.all(
    check.relays.map(async (relay) => ({ relay, probed: await ask(relay, parts) })),
  );
  const isAnyAlive = found.some(({ probed }) => isAlive(probed));
  return found.flatMap(({ relay, probed }) => [
    isAlive(probed) ? alive(relay, probed, check) : dead(relay, probed, isAnyAlive),
    ...history(relay, check),
  ]);
}

async function ask(relay: string, { connect, times, clock }: RelayParts): Promise<ProbedSocket> {
  const askedAtMs = clock();
  const probed = await probeSocket(connect, relay, { say: QUESTION, isAnswered: true });
  if (probed.outcome === 'open') {
    times.take(new URL(relay).host, probed.date, askedAtMs, clock());
  }
  return probed;
}

type Alive = Extract<ProbedSocket, { outcome: 'open' }>;

function isAlive(probed: ProbedSocket): probed is Alive {
  return probed.outcome === 'open' && Array.isArray(parseJson(probed.firstMessage ?? ''));
}

function alive(relay: string, { firstMessage }: Alive, { hasZapKey }: RelaysToCheck): Finding {
  const [kind] = parseJson(firstMessage ?? '') as unknown[];
  return kind === 'AUTH' && !hasZapKey
    ? note(
        'relay.auth',
        `${relay} answers, and asks who is there (NIP-42): without ZAP_SECRET_KEY it may tell nothing`,
      )
    : ok('relay.reached', `${relay} answers`);
}

/** @param isAnyAlive whether receipts get out all the same */
function dead(relay: string, probed: ProbedSocket, isAnyAlive: boolean): Finding {
  const say = isAnyAlive ? warning : problem;
  if (probed.outcome === 'open') {
    return say(
      'relay.silent',
      `${relay} opens its socket and does not answer as a relay`,
      'Take it out of ZAP_RELAYS, or name another.',
    );
  }
  const trouble = socketTrouble(probed);
  return say('relay.unreachable', `${relay} cannot be reached: ${trouble}`, adviceOn(trouble));
}

function history(relay: string, { known }: RelaysToCheck): Finding[] {
  const row = known?.find(({ url }) => url === relay);
  if (row === undefined || row.failures < MANY_FAILURES) {
    return [];
  }
  const word = row.lastWord === null ? '' : `: ${printable(row.lastWord)}`;
  return [
    warning(
      'relay.failing',
      `${relay} took no receipt ${row.failures} times in a row${word}`,
      'Ask its operator to take receipts of your zap key, or take it out of ZAP_RELAYS.',
    ),
  ];
}
