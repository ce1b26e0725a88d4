import type { Finding } from '../../domain/finding.ts';
import type { LookedUp } from '../../net/look-up-name.ts';
import type { DatabaseFacts } from '../../store/examination-store.ts';
import { checkClock, type ToldTime, type ToldTimes } from './clock.ts';
import { checkDatabase, type DatabaseToCheck } from './database.ts';
import type { SeenDatabase } from './look-at-database.ts';
import { checkMints, type MintParts, type MintsToCheck } from './mints.ts';
import { checkNames } from './names.ts';
import { checkOrigins, type OriginsToCheck } from './origins.ts';
import type { OriginParts } from './reach.ts';
import { checkRelays, type RelayParts, type RelaysToCheck } from './relays.ts';
import { checkSettings, type SettingsToCheck } from './settings.ts';

/** What a part of the diagnosis is about. */
export type Area = 'settings' | 'database' | 'clock' | 'names' | 'mints' | 'relays' | 'origins';

/** Everything that was found, by what it is about. */
export type Diagnosis = readonly { area: Area; findings: readonly Finding[] }[];

/** What the settings name, as far as it can be looked at. */
export interface DiagnosisPlan {
  settings: SettingsToCheck;
  database: Omit<DatabaseToCheck, 'look' | 'isHeard'>;
  mints: Omit<MintsToCheck, 'rateLimits'>;
  relays: Omit<RelaysToCheck, 'known'>;
  origins: Omit<OriginsToCheck, 'isServiceAlive'>;
}

/** Who looks. */
export interface DiagnosisParts {
  /** Looks at the database, once. */
  lookAtDatabase: () => Promise<SeenDatabase>;
  lookUpName: (name: string) => Promise<LookedUp>;
  mints: MintParts;
  relays: RelayParts;
  origins: OriginParts;
  times: ToldTimes;
  /** Told what is still waited for when that changes, in one line without its end. */
  onProgress: (line: string) => void;
}

/**
 * Looks at everything that a service with these settings needs, at most of it at once: what does not
 * answer holds up nothing else.
 */
export async function diagnose(plan: DiagnosisPlan, parts: DiagnosisParts): Promise<Diagnosis> {
  const waitingFor = new Set<Area>();
  const tell = () => {
    if (waitingFor.size > 0) {
      parts.onProgress(`Looking; still at ${[...waitingFor].join(', ')}`);
    }
  };
  const told = <T>(what: Area, work: Promise<T>): Promise<T> => {
    waitingFor.add(what);
    tell();
    return work.finally(() => {
      waitingFor.delete(what);
      tell();
    });
  };
  const { settings, database, mints, relays, origins } = plan;
  const urls = [
    mints.defaultMintUrl,
    ...(mints.paidNamesMintUrl === null ? [] : [mints.paidNamesMintUrl]),
    ...relays.relays,
  ];
  // The names of everything else wait for nobody; what the database knows, the others build on.
  const { publicOrigins, allowPrivateNetworks } = settings;
  const { lookUpName } = parts;
  const namesChecked = told(
    'names',
    checkNames({ urls, publicOrigins, allowPrivateNetworks, lookUpName }),
  );
  const seen = await told('database', parts.lookAtDatabase());
  const facts = seen.look.outcome === 'seen' ? seen.look.facts : null;
  const contents = facts?.contents ?? null;
  const isServiceAlive = (contents?.processes ?? 0) > 0;
  const [named, minted, relayed, reached] = await Promise.all([
    namesChecked,
    told('mints', checkMints({ ...mints, rateLimits: contents?.rateLimits ?? null }, parts.mints)),
    told('relays', checkRelays({ ...relays, known: contents?.relays ?? null }, parts.relays)),
    told('origins', checkOrigins({ ...origins, isServiceAlive }, parts.origins)),
  ]);
  const isServer = database.dataDir === null;
  return [
    { area: 'settings', findings: checkSettings(settings) },
    { area: 'database', findings: checkDatabase({ ...database, ...seen }) },
    {
      area: 'clock',
      findings: checkClock(isServer ? databaseTime(facts, seen) : null, parts.times.all),
    },
    { area: 'names', findings: named },
    { area: 'mints', findings: minted },
    { area: 'relays', findings: relayed },
    { area: 'origins', findings: reached },
  ];
}

function databaseTime(
  facts: DatabaseFacts | null,
  { askedAtMs, heardAtMs }: SeenDatabase,
): ToldTime | null {
  return facts === null
    ? null
    : { teller: 'database', saidMs: facts.nowMs, resolutionMs: 0, askedAtMs, heardAtMs };
}
