import type { NameRecord } from '../domain/name-standing.ts';
import type { NameChange, ShownName } from '../usecases/manage-names.ts';
import { keyToJson } from './key-json.ts';
import { iso } from './plain-text.ts';

/** How a name stands, for programs: times in ISO 8601 (UTC), absent rather than null. */
export function shownNameToJson({ outcome, nowMs, record }: ShownName): object {
  return { outcome, asOf: iso(nowMs), ...recordToJson(record) };
}

/** What became of a change, for programs. */
export function nameChangeToJson({ outcome, nowMs, before }: NameChange): object {
  return { outcome, asOf: iso(nowMs), before: recordToJson(before) };
}

/** Whose a name is, was or is to be is `key`; since when it stands so, `since`. */
function recordToJson({ name, standing, stored, list }: NameRecord): object {
  return {
    name,
    standing,
    ...(list === null ? {} : { list }),
    ...(stored?.pubkey == null ? {} : { key: keyToJson(stored.pubkey, null) }),
    ...(stored === null ? {} : { since: iso(stored.sinceMs) }),
    ...(stored?.untilMs == null ? {} : { until: iso(stored.untilMs) }),
    ...(stored?.purchase == null ? {} : { purchase: stored.purchase }),
  };
}
