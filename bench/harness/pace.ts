/** Who is busier than this, of a core, or later by this share of the time, may be what was measured. */
const BUSY = 0.9;
const LATE = 0.02;

/**
 * Whether a process that asks or pays at a steady pace could not keep to it.
 *
 * @param pace.busy of a core
 * @param pace.lateness how much longer it took than planned, as a share of the time
 */
export function fellBehind({ busy, lateness }: { busy: number; lateness: number }): boolean {
  return busy > BUSY || lateness > LATE;
}
