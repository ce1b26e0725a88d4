/** Such as `59 minutes, 58 seconds`. @param language BCP 47 */
export function formatTimeLeft(secondsLeft: number, language: string): string {
  const formatUnit = (count: number, unit: string) =>
    Math.floor(count).toLocaleString(language, { style: 'unit', unit, unitDisplay: 'long' });
  if (secondsLeft >= 2 * 3_600) {
    return formatUnit(secondsLeft / 3_600, 'hour');
  }
  const seconds = formatUnit(secondsLeft % 60, 'second');
  return secondsLeft >= 60 ? `${formatUnit(secondsLeft / 60, 'minute')}, ${seconds}` : seconds;
}
