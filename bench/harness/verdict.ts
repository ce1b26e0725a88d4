import type { FigureResult } from '../processes/figure.ts';

/**
 * Why there is nothing to hold a figure to; null: there is.
 *
 * @param isNamed whether it was asked for by its name: of all, some are left out where a machine cannot
 *   have them, which is for the one who asked to know where it was this one
 */
export function whyUnmeasured(result: FigureResult, isNamed: boolean): string | null {
  if ('failure' in result) {
    return result.failure;
  }
  return isNamed && result.rows.length === 0 ? 'left out on this machine' : null;
}

/** Whether all that was measured can be trusted, and was measured; `isNamed` as in {@link whyUnmeasured}. */
export function isReliable(result: FigureResult, isNamed: boolean): boolean {
  return (
    whyUnmeasured(result, isNamed) === null &&
    'rows' in result &&
    result.rows.every(({ problems }) => problems.length === 0)
  );
}
