/** The time that the calculation takes on the machine for which bounds are written, in milliseconds. */
const USUAL_MS = 5;

const ATTEMPTS = 30;

/**
 * Measures how many times slower a calculation is at the moment than on the machine for which bounds of times and of
 * processor time are written; at least 1. The fastest attempt counts, because other processes disturb the others.
 */
export function measureSlowness(): number {
  const durationsMs = Array.from({ length: ATTEMPTS }, () => {
    const startedAtMs = performance.now();
    calculate();
    return performance.now() - startedAtMs;
  });
  return Math.max(1, Math.min(...durationsMs) / USUAL_MS);
}

function calculate(): void {
  const quotes = Array.from({ length: 20_000 }, (_, index) => ({
    quote: `quote-${index}`,
    amount: index,
    state: 'UNPAID',
  }));
  const copies: typeof quotes = JSON.parse(JSON.stringify(quotes));
  copies.sort((a, b) => (a.quote < b.quote ? -1 : 1));
}
