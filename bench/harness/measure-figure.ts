import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { FigurePlan, FigureResult } from '../processes/figure.ts';
import { NodeProcess } from './node-process.ts';
import { PROFILES_VARIABLE } from './servers.ts';

/** The slowest of all at its full size, and to spare. */
const LONGEST_FIGURE_MS = 3 * 3_600_000;

/**
 * Measures a figure in a process of its own: one that fails is said to, and the others go on.
 *
 * @param tree the folder of the clone whose service is measured, by the bench/ in it
 * @param profiles where the service leaves its CPU profiles; null: it makes none
 */
export async function measureFigure(
  tree: string,
  plan: FigurePlan,
  profiles: string | null = null,
): Promise<FigureResult> {
  const program = pathToFileURL(path.join(tree, 'bench/processes/figure.ts')).href;
  await using measuring = new NodeProcess(`the figure ${plan.name}`, program, {
    env: { ...ownEnvironment(), ...(profiles !== null && { [PROFILES_VARIABLE]: profiles }) },
    input: plan,
  });
  try {
    return await measuring.next<FigureResult>(LONGEST_FIGURE_MS);
  } catch (error) {
    return { failure: String(error) };
  }
}

/** The bench itself goes on there; what it measures starts from nothing ({@link NodeProcess}). */
function ownEnvironment(): Record<string, string> {
  const set = Object.entries(process.env).filter((entry) => entry[1] !== undefined);
  return Object.fromEntries(set as [string, string][]);
}
