/** Such as `Expires in 59 minutes, 58 seconds.` */
export function formatExpiry(secondsLeft: number): string {
  if (secondsLeft >= 2 * 3_600) {
    return `Expires in ${formatUnit(secondsLeft / 3_600, 'hour')}.`;
  }
  const seconds = formatUnit(secondsLeft % 60, 'second');
  return secondsLeft >= 60
    ? `Expires in ${formatUnit(secondsLeft / 60, 'minute')}, ${seconds}.`
    : `Expires in ${seconds}.`;
}

function formatUnit(count: number, unit: string): string {
  const format = new Intl.NumberFormat('en', { style: 'unit', unit, unitDisplay: 'long' });
  return format.format(Math.floor(count));
}
