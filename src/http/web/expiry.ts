/** Such as `Expires in 09:59`, or `Expires in 01:00:00` from an hour on. */
export function formatExpiry(secondsLeft: number): string {
  const hours = Math.floor(secondsLeft / 3_600);
  const minutesAndSeconds = [Math.floor(secondsLeft / 60) % 60, secondsLeft % 60];
  const units = hours === 0 ? minutesAndSeconds : [hours, ...minutesAndSeconds];
  return `Expires in ${units.map((unit) => String(unit).padStart(2, '0')).join(':')}`;
}
