import v8 from 'node:v8';
import vm from 'node:vm';
import { type Actor, currentActor } from './scheduler.ts';

// Maps and sets that have had several entries, so that one that keeps what it no longer needs can be found. Private fields
// hide them from a walk through the objects of the service.

/** Smaller ones are not noted, because most exist for a moment only. */
const NOTED_SIZE = 8;

type Collection = Map<unknown, unknown> | Set<unknown>;

let noted: { reference: WeakRef<Collection>; actor: Actor }[] = [];
let alreadyNoted = new WeakSet<Collection>();

v8.setFlagsFromString('--expose-gc');
/** Has no effect on collections that were looked at in the same turn of the event loop. */
export const collectGarbage: () => void = vm.runInNewContext('gc');

/** Forgets those of an earlier seed. */
export function forgetCollections(): void {
  noted = [];
  alreadyNoted = new WeakSet();
}

/**
 * Returns the keys that match in collections that code of this actor has filled. Some may no longer be in use,
 * unless the garbage was collected before.
 */
export function findKeptKeys(actor: Actor, matches: (key: string) => boolean): string[] {
  return noted
    .filter((collection) => collection.actor === actor)
    .flatMap(({ reference }) => [...(reference.deref()?.keys() ?? [])])
    .filter((key) => typeof key === 'string')
    .filter(matches);
}

function note(collection: Collection): void {
  if (!alreadyNoted.has(collection)) {
    alreadyNoted.add(collection);
    noted.push({ reference: new WeakRef(collection), actor: currentActor() });
  }
}

// `getOrInsert` and `getOrInsertComputed` are not replaced.
const { set } = Map.prototype;
Map.prototype.set = function (key, value) {
  set.call(this, key, value);
  if (this.size === NOTED_SIZE) {
    note(this);
  }
  return this;
};

const { add } = Set.prototype;
Set.prototype.add = function (value) {
  add.call(this, value);
  if (this.size === NOTED_SIZE) {
    note(this);
  }
  return this;
};
