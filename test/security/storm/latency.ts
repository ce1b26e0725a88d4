/** How long answers took, in windows of time: one slow moment of the machine spoils one window alone. */

/** Milliseconds that each took, in one window. */
export interface Window {
  /** Of HTTP, and pongs of quote sockets. */
  answers: readonly number[];
  /** From a payment at the mint to its message on the socket: as long as the mint may not be asked. */
  updates: readonly number[];
}

/**
 * Differences below it are noise: of timers, of garbage collections on both sides, and of a system whose
 * two cores are shared by the service, those who measure it and the attackers.
 */
const NOISE_MS = 20;

const TIMES_USUAL = 2;

/** The median of the p99s of several windows. */
export function typicalP99(windows: readonly Window[]): number {
  return quantile(
    windows.map(({ answers }) => quantile(answers, 0.99)),
    0.5,
  );
}

/** NaN where nothing was paid. */
export function typicalUpdate(windows: readonly Window[]): number {
  return quantile(
    windows.flatMap(({ updates }) => updates),
    0.5,
  );
}

/** Twice of what is usual, noise apart. */
export function longestP99(usualP99: number): number {
  return Math.max(TIMES_USUAL * usualP99, usualP99 + NOISE_MS);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
