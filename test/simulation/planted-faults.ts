import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

export interface PlantedFault {
  name: string;
  /** A rule that finds it, and a seed that breaks the rule. Other rules and seeds may find it, too. */
  rule: string;
  seed: number;
  edits: readonly { file: string; original: string; replacement: string }[];
}

/** Reads the mistakes that could be made in the service, each of which the simulation must find. */
export function readPlantedFaults(): PlantedFault[] {
  const text = readFileSync(new URL('planted-faults.txt', import.meta.url), 'utf8');
  return text.split('\n\n').map((paragraph) => {
    const [, name = '', rule = '', seed] = TITLE.exec(paragraph) ?? [];
    const edits = Array.from(
      paragraph.matchAll(EDIT),
      ([, file = '', removed = '', added = '']) => ({
        file,
        original: stripMarks(removed),
        replacement: stripMarks(added),
      }),
    );
    return { name, rule, seed: Number(seed), edits };
  });
}

const TITLE = /^(.*) -> (.*), seed (\d+)$/m;

/** A file, lines that begin with `-`, and lines that begin with `+`. */
const EDIT = /^(\S+)\n((?:-.*\n)+)((?:\+.*\n?)+)/gm;

function stripMarks(lines: string): string {
  return lines.trimEnd().replace(/^[-+] ?/gm, '');
}

/** Makes Node load the service with a planted fault. Call it before anything of `src/` is imported. */
export function plantFault(name: string): void {
  const fault = readPlantedFaults().find((each) => each.name === name);
  if (fault === undefined) {
    throw new Error(`there is no planted fault '${name}'`);
  }
  const sources = editSources(fault);
  registerHooks({
    load: (url, context, nextLoad) => {
      const source = sources.get(url);
      return source === undefined
        ? nextLoad(url, context)
        : { format: 'module-typescript', source, shortCircuit: true };
    },
  });
}

/** Returns the changed files by URL. Throws if the service no longer contains what a fault replaces. */
export function editSources(fault: PlantedFault): Map<string, string> {
  const sources = new Map<string, string>();
  for (const { file, original, replacement } of fault.edits) {
    const url = new URL(`../../${file}`, import.meta.url);
    const source = sources.get(url.href) ?? readFileSync(url, 'utf8');
    if (source.split(original).length !== 2) {
      throw new Error(`'${original}' must occur exactly once in ${file}`);
    }
    sources.set(
      url.href,
      source.replace(original, () => replacement),
    );
  }
  return sources;
}
