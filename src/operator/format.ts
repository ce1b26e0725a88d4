import * as nip19 from 'nostr-tools/nip19';

// How commands format values for people and for scripts.

/** Wide enough for every label of {@link formatFields}. */
const LABEL_WIDTH = 12;

/** Returns one line for each labelled value that is not null. */
export function formatFields(...rows: readonly (readonly [label: string, value: string | null])[]) {
  return rows
    .filter(([, value]) => value !== null)
    .map(([label, value]) => `  ${label.padEnd(LABEL_WIDTH)}  ${value}`);
}

/** Joins lines and ends the last one with a line break. */
export function joinLines(...lines: string[]): string {
  return `${lines.join('\n')}\n`;
}

/** Returns an npub, or a name with the npub in parentheses. */
export function pubkeyToText(pubkey: string, name: string | null): string {
  const npub = nip19.npubEncode(pubkey);
  return name === null ? npub : `${name} (${npub})`;
}

export function pubkeyToJson(pubkey: string, name: string | null): object {
  return { npub: nip19.npubEncode(pubkey), pubkey, name };
}

export function formatNumber(value: number): string {
  return value.toLocaleString('en');
}

/** Such as `1 payment` or `1,000 payments`. */
export function formatCount(value: number, noun: string): string {
  return `${formatNumber(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function formatSat(amount: number): string {
  return `${formatNumber(amount)} sat`;
}

/** Formats milliseconds since 1970 as ISO 8601 in UTC. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Such as `2026-08-01T12:00:00.000Z (in 12 s)`. */
export function formatTimeWithDistance(atMs: number, nowMs: number): string {
  return `${formatTime(atMs)} (${formatDistance(atMs - nowMs)})`;
}

const DISTANCE_UNITS: readonly [name: string, seconds: number][] = [
  ['days', 86_400],
  ['h', 3_600],
  ['min', 60],
];

/** Uses the largest unit of which there are at least two. */
function formatDistance(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  const [name, size] = DISTANCE_UNITS.find(([, each]) => seconds >= 2 * each) ?? ['s', 1];
  const length = `${Math.round(seconds / size)} ${name}`;
  return ms > 0 ? `in ${length}` : `${length} ago`;
}

/**
 * Prepares a value for `--json`: omits null fields and writes times in ISO 8601, so that `createdAtMs` becomes
 * `createdAt`, and `nowMs` becomes `asOf`.
 */
export function toJsonOutput(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(toJsonOutput);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const entries = Object.entries(value).filter(([, each]) => (each ?? null) !== null);
  return Object.fromEntries(
    entries.map(([key, each]) => {
      if (!key.endsWith('Ms')) {
        return [key, toJsonOutput(each)];
      }
      return [key === 'nowMs' ? 'asOf' : key.slice(0, -'Ms'.length), formatTime(each)];
    }),
  );
}
