import type { ProcessTerminal } from './terminal.ts';

/** A terminal leaves out what comes too soon after the line before; a step may take minutes. */
const SHOW_AGAIN_MS = 1_000;

/**
 * Does work that tells only what it begins, and shows its newest line for as long as it goes on.
 *
 * @param work told where to tell how far it is, in one line without its end
 * @returns what came of the work
 */
export async function showProgress<T>(
  terminal: Pick<ProcessTerminal, 'progress' | 'end'>,
  work: (tell: (line: string) => void) => Promise<T>,
): Promise<T> {
  let newest: string | null = null;
  const show = () => {
    if (newest !== null) {
      terminal.progress(newest);
    }
  };
  const showing = setInterval(show, SHOW_AGAIN_MS);
  try {
    return await work((line) => {
      newest = line;
      show();
    });
  } finally {
    clearInterval(showing);
    terminal.end();
  }
}
