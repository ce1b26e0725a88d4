import v8 from 'node:v8';
import vm from 'node:vm';
import { type Actor, currentActor } from './scheduler.ts';

// All maps and sets of the service that have had an entry, so that one that keeps what it no longer needs can be found.
// Private fields hide them from a walk through its objects.

type Collection = Map<unknown, unknown> | Set<unknown>;

let noted: { reference: WeakRef<Collection>; actor: Actor; file: string }[] = [];
let alreadyNoted = new WeakSet<Collection>();
let isNoting = false;

v8.setFlagsFromString('--expose-gc');
/** Has no effect on collections that were looked at in the same turn of the event loop. */
export const collectGarbage: () => void = vm.runInNewContext('gc');

/** Forgets those of an earlier seed, and notes further ones or, which is faster, does not. */
export function noteCollections(isNeeded: boolean): void {
  noted = [];
  alreadyNoted = new WeakSet();
  isNoting = isNeeded;
}

/**
 * Returns how many entries the collections of these actors have, by the file that made the first entry. Some may no
 * longer be in use, unless the garbage was collected before.
 */
export function countEntries(actors: ReadonlySet<Actor>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { reference, file } of noted.filter(({ actor }) => actors.has(actor))) {
    const size = reference.deref()?.size ?? 0;
    const name = `entries in ${file}`;
    counts.set(name, (counts.get(name) ?? 0) + size);
  }
  return counts;
}

function note(collection: Collection): void {
  if (!alreadyNoted.has(collection)) {
    alreadyNoted.add(collection);
    const frame = findFrame();
    const [file] = /src\/.*\.ts/.exec(frame) ?? [];
    if (file !== undefined && !NOT_COUNTED.test(frame)) {
      noted.push({ reference: new WeakRef(collection), actor: currentActor(), file });
    }
  }
}

/** Edges of the simulation, libraries (LRU caches have a maximum), and the routes of each mint. */
const NOT_COUNTED = /test\/simulation|node_modules|MintRateLimiter\.acquire/;

/** Where an entry was made: `at WatchedQuotes.add (file:///.../src/watcher/watched-quotes.ts:1:2)`. */
function findFrame(): string {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 7;
  const frames = new Error().stack?.split('\n').slice(4) ?? [];
  Error.stackTraceLimit = stackTraceLimit;
  return frames.find((frame) => !/<anonymous>|keyed-counter/.test(frame)) ?? '';
}

for (const [prototype, method] of [
  [Map.prototype, 'set'],
  [Map.prototype, 'getOrInsert'],
  [Map.prototype, 'getOrInsertComputed'],
  [Set.prototype, 'add'],
] as const) {
  const methods = prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
  const original = methods[method] as (...args: unknown[]) => unknown;
  methods[method] = function (this: Collection, key, value) {
    const result = original.call(this, key, value);
    if (isNoting && this.size === 1) {
      note(this);
    }
    return result;
  };
}
