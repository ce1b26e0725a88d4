/** Such as `59 minutes, 58 seconds`. @param language BCP 47 */
export function formatTimeLeft(secondsLeft: number, language: string): string {
  if (secondsLeft < 60 || secondsLeft >= 2 * 3_600) {
    return formatRoughTimeLeft(secondsLeft, language);
  }
  const minutes = formatUnit(secondsLeft / 60, 'minute', language);
  return `${minutes}, ${formatUnit(secondsLeft % 60, 'second', language)}`;
}

/** Such as `34 minutes`: in the largest unit of which there are two. */
export function formatRoughTimeLeft(secondsLeft: number, language: string): string {
  const [unit, unitSeconds] = UNITS.find(([, size]) => secondsLeft >= 2 * size) ?? ['second', 1];
  return formatUnit(secondsLeft / unitSeconds, unit, language);
}

const UNITS: readonly [name: string, seconds: number][] = [
  ['hour', 3_600],
  ['minute', 60],
];

function formatUnit(count: number, unit: string, language: string): string {
  return Math.floor(count).toLocaleString(language, { style: 'unit', unit, unitDisplay: 'long' });
}
