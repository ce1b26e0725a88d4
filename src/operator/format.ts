import * as nip19 from 'nostr-tools/nip19';

/** How commands render values, for people and for programs. */

/** Wide enough for every label of {@link fields}. */
const LABEL_WIDTH = 12;

/** Labelled values, one in a line; a value that is null is left out. */
export function fields(...rows: readonly (readonly [label: string, value: string | null])[]) {
  return rows
    .filter(([, value]) => value !== null)
    .map(([label, value]) => `  ${label.padEnd(LABEL_WIDTH)}  ${value}`);
}

/** Joins lines, and ends each. */
export function lines(...all: string[]): string {
  return `${all.join('\n')}\n`;
}

/** A recipient as an npub, with the name if there is one. */
export function keyToText(pubkey: string, name: string | null): string {
  const npub = nip19.npubEncode(pubkey);
  return name === null ? npub : `${name} (${npub})`;
}

export function keyToJson(pubkey: string, name: string | null): object {
  return { npub: nip19.npubEncode(pubkey), pubkey, name };
}

/** A whole number with separators, such as `1,000`. */
export function number(value: number): string {
  return value.toLocaleString('en');
}

/** Such as `1 payment` or `1,000 payments`. */
export function count(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** Such as `1,000 sat`. */
export function sat(amount: number): string {
  return `${number(amount)} sat`;
}

/** A time (milliseconds since 1970) in ISO 8601, UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** A time and how far away it is, such as `2026-08-01T12:00:00.000Z (in 12 s)`. */
export function when(atMs: number, nowMs: number): string {
  return `${iso(atMs)} (${distance(atMs - nowMs)})`;
}

const UNITS: readonly [name: string, seconds: number][] = [
  ['days', 86_400],
  ['h', 3_600],
  ['min', 60],
];

/** In the largest unit of which there are two. */
function distance(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  const [name, size] = UNITS.find(([, each]) => seconds >= 2 * each) ?? ['s', 1];
  const length = `${Math.round(seconds / size)} ${name}`;
  return ms > 0 ? `in ${length}` : `${length} ago`;
}

/**
 * Prepares a value for `--json`: leaves out fields that are null, and writes times in ISO 8601, so that
 * `createdAtMs` becomes `createdAt`, and `nowMs` becomes `asOf`.
 */
export function toJson(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(toJson);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const entries = Object.entries(value).filter(([, each]) => (each ?? null) !== null);
  return Object.fromEntries(
    entries.map(([key, each]) =>
      key.endsWith('Ms') ? [timeName(key), iso(each)] : [key, toJson(each)],
    ),
  );
}

function timeName(key: string): string {
  return key === 'nowMs' ? 'asOf' : key.slice(0, -'Ms'.length);
}
