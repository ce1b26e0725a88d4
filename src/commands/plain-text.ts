import * as nip19 from 'nostr-tools/nip19';

/** How commands write for a person. */

/** A recipient, by name where there is one. */
export function keyInWords(pubkey: string, name: string | null): string {
  const npub = nip19.npubEncode(pubkey);
  return name === null ? npub : `${name} (${npub})`;
}

/** Such as `1 payment` or `1,000 payments`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

/** A time (milliseconds since 1970) in UTC, and how far away it is. */
export function when(atMs: number, nowMs: number): string {
  return `${iso(atMs)} (${distance(atMs - nowMs)})`;
}

/** A time (milliseconds since 1970) in ISO 8601, UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

const UNITS: readonly [name: string, seconds: number][] = [
  ['days', 86_400],
  ['h', 3_600],
  ['min', 60],
];

/** Such as `in 12 s` or `3 h ago`, in the largest unit of which there are two. */
function distance(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  const [name, size] = UNITS.find(([, each]) => seconds >= 2 * each) ?? ['s', 1];
  const length = `${Math.round(seconds / size)} ${name}`;
  return ms > 0 ? `in ${length}` : `${length} ago`;
}

/** Each ended. */
export function lines(...all: string[]): string {
  return `${all.join('\n')}\n`;
}
