/** Of a map that is full, one in so many entries makes way at a time. */
const SHARE = 100;

/**
 * Where a map holds more than it may, drops the entries that come first in it: as many at a time as a
 * hundredth of what it may hold. To find its first entry, a map steps over all that were deleted since it
 * last grew, which for one at a time costs more than what the map spares.
 *
 * @param max how many it may hold
 */
export function dropOldest<Key>(map: Map<Key, unknown>, max: number): void {
  if (map.size <= max) {
    return;
  }
  const wanted = map.size - Math.ceil(max / SHARE);
  for (const key of map.keys()) {
    if (map.size <= wanted) {
      break;
    }
    map.delete(key);
  }
}
