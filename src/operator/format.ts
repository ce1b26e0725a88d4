import * as nip19 from 'nostr-tools/nip19';
import type { ExpiringEcash } from '../usernames/treasury-store.ts';

const LABEL_WIDTH = 12;

export function formatFields(...rows: [label: string, value: string | null | undefined][]) {
  return rows
    .filter(([, value]) => value)
    .map(([label, value]) => `  ${label.padEnd(LABEL_WIDTH)}  ${value}`);
}

export function joinLines(...lines: string[]): string {
  return `${lines.join('\n')}\n`;
}

/** Returns the npub. If the user has a name, returns the name, then the npub in parentheses. */
export function pubkeyToText(pubkey: string, name: string | null): string {
  const npub = nip19.npubEncode(pubkey);
  return name === null ? npub : `${name} (${npub})`;
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

export function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Such as `2026-08-01T12:00:00.000Z (in 12 s)`. */
export function formatTimeWithDistance(atMs: number, nowMs: number): string {
  return `${formatTime(atMs)} (${formatDistance(atMs - nowMs)})`;
}

/** Such as `21 sat at https://mint.example expire 2026-08-01T12:00:00.000Z (in 3 days)`. */
export function formatExpiry(
  { mintUrl, amountSat, expiresAtMs }: ExpiringEcash,
  nowMs: number,
): string {
  const verb = expiresAtMs > nowMs ? 'expire' : 'expired';
  return `${formatSat(amountSat)} at ${mintUrl} ${verb} ${formatTimeWithDistance(expiresAtMs, nowMs)}`;
}

const DISTANCE_UNITS: readonly [name: string, seconds: number][] = [
  ['days', 86_400],
  ['h', 3_600],
  ['min', 60],
];

/** Such as `in 12 s` or `3 days ago`. Uses the largest unit that fits into the distance at least twice. */
function formatDistance(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  const [unit, unitSeconds] = DISTANCE_UNITS.find(([, size]) => seconds >= 2 * size) ?? ['s', 1];
  const length = `${Math.round(seconds / unitSeconds)} ${unit}`;
  return ms > 0 ? `in ${length}` : `${length} ago`;
}

/**
 * Formats a value for `--json`. Omits null fields, writes times in ISO 8601 (`createdAtMs` becomes `createdAt`), and
 * adds the npub to each public key.
 */
export function formatJson(value: object): string {
  return `${JSON.stringify(value, (_key, nested: unknown) => convertFields(nested), 2)}\n`;
}

function convertFields(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return value;
  }
  const converted: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value)) {
    if (field === null || field === undefined) {
      continue;
    }
    if (key === 'pubkey') {
      converted['npub'] = nip19.npubEncode(field);
    }
    if (key.endsWith('Ms')) {
      converted[key.slice(0, -'Ms'.length)] = formatTime(field);
    } else {
      converted[key] = field;
    }
  }
  return converted;
}
