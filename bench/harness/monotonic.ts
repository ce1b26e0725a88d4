/** A clock that all processes of a machine share, in milliseconds: what one notes, another can subtract. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
