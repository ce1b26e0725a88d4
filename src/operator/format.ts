import * as nip19 from 'nostr-tools/nip19';
import type { ExpiringEcash } from '../usernames/treasury-store.ts';

const LABEL_WIDTH = 12;

/** Returns one line for each row, with the values in one column. Omits rows without a value. */
export function formatFields(...rows: [label: string, value: string | null | undefined][]) {
  return rows
    .filter(([, value]) => value)
    .map(([label, value]) => `  ${label.padEnd(LABEL_WIDTH)}  ${value}`);
}

export function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** Returns `npub1...`, or `alice (npub1...)` for a user with a name. */
export function pubkeyToText(pubkey: string, name: string | null): string {
  const npub = nip19.npubEncode(pubkey);
  return name === null ? npub : `${name} (${npub})`;
}

export function formatNumber(value: number): string {
  return value.toLocaleString('en');
}

/** Returns a text such as `1 payment` or `1,000 payments`. */
export function formatCount(value: number, noun: string): string {
  return `${formatNumber(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function formatSat(amount: number): string {
  return `${formatNumber(amount)} sat`;
}

export function formatTime(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Returns a text such as `2026-08-01T12:00:00.000Z (in 12 s)` or `... (3 days ago)`. What another process has just stored
 * may seem to lie in the future.
 */
export function formatTimeWithDistance(atMs: number, nowMs: number): string {
  const seconds = Math.round(Math.abs(atMs - nowMs) / 1000);
  // The largest unit of which the distance has at least two.
  const [unit, unitSeconds] = DISTANCE_UNITS.find(([, size]) => seconds >= 2 * size) ?? ['s', 1];
  const distance = `${Math.round(seconds / unitSeconds)} ${unit}`;
  return `${formatTime(atMs)} (${atMs > nowMs && seconds > 0 ? `in ${distance}` : `${distance} ago`})`;
}

const DISTANCE_UNITS: readonly [name: string, seconds: number][] = [
  ['days', 86_400],
  ['h', 3_600],
  ['min', 60],
];

/** Returns a text such as `21 sat at https://mint.example expire 2026-08-01T12:00:00.000Z (in 3 days)`. */
export function formatExpiry(ecash: ExpiringEcash, nowMs: number): string {
  const { mintUrl, amountSat, expiresAtMs } = ecash;
  const verb = expiresAtMs > nowMs ? 'expire' : 'expired';
  return `${formatSat(amountSat)} at ${mintUrl} ${verb} ${formatTimeWithDistance(expiresAtMs, nowMs)}`;
}

/** Returns JSON without null fields, with `createdAtMs` as `createdAt` (ISO 8601), and an npub beside each `pubkey`. */
export function formatJson(value: object, indent?: number): string {
  return JSON.stringify(value, (_key, nested: unknown) => convertFields(nested), indent);
}

function convertFields(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return value;
  }
  const converted: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value)) {
    if (key === 'pubkey' && field !== null) {
      converted['npub'] = nip19.npubEncode(field);
    }
    if (field !== null && field !== undefined) {
      const isTime = key.endsWith('Ms');
      converted[isTime ? key.slice(0, -'Ms'.length) : key] = isTime ? formatTime(field) : field;
    }
  }
  return converted;
}
