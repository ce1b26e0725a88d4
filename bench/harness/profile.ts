import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { OWN_TREE } from './other-tree.ts';

/** Functions that are printed; all are in the profiles, for any tool that reads them. */
const TOP_FUNCTIONS = 25;

/** Time in which nothing was to do. */
const IDLE = '(idle)';

/** As V8 writes it (`--cpu-prof`), as far as self time needs it. */
export interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  /** The node that was at work at each look. */
  samples: number[];
  /** Microseconds from each look to the one before. */
  timeDeltas: number[];
}

/** Where the processor's time went: what each ran itself, without what it called. */
export interface SelfTimes {
  busyMs: number;
  /** By package, by folder of ours, or by what V8 calls it. */
  parts: Map<string, number>;
  /** By function and place. */
  functions: Map<string, number>;
}

/** Every profile of a folder, one for each process that was ended; they are added up. */
export async function readProfiles(folder: string): Promise<CpuProfile[]> {
  const files = await readdir(folder).catch(() => []);
  return Promise.all(
    files
      .filter((file) => file.endsWith('.cpuprofile'))
      .map(async (file) => JSON.parse(await readFile(path.join(folder, file), 'utf8'))),
  );
}

/** Adds up the self times of profiles. */
export function addSelfTimes(profiles: readonly CpuProfile[]): SelfTimes {
  const times: SelfTimes = { busyMs: 0, parts: new Map(), functions: new Map() };
  for (const { nodes, samples, timeDeltas } of profiles) {
    const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
    for (const [look, id] of samples.entries()) {
      const frame = frames.get(id);
      const tookMs = (timeDeltas[look] ?? 0) / 1000;
      if (frame === undefined || frame.functionName === IDLE) {
        continue;
      }
      times.busyMs += tookMs;
      add(times.parts, partOf(frame), tookMs);
      add(
        times.functions,
        `${frame.functionName || '(anonymous)'} ${placeOf(frame)}`.trim(),
        tookMs,
      );
    }
  }
  return times;
}

/** The parts and the functions that took most, as shares of the time in which there was work. */
export function renderProfile(profiles: readonly CpuProfile[]): string {
  if (profiles.length === 0) {
    return 'no profile: it started no service';
  }
  const { busyMs, parts, functions } = addSelfTimes(profiles);
  const list = (times: Map<string, number>, count: number) =>
    [...times]
      .sort(([, a], [, b]) => b - a)
      .slice(0, count)
      .map(([name, tookMs]) => `  ${((100 * tookMs) / busyMs).toFixed(1).padStart(5)} %  ${name}`);
  return [
    `${Math.round(busyMs)} ms of work in ${profiles.length} processes, their starts too`,
    ...list(parts, TOP_FUNCTIONS),
    'of it, the functions themselves:',
    ...list(functions, TOP_FUNCTIONS),
  ].join('\n');
}

function add(times: Map<string, number>, name: string, tookMs: number): void {
  times.set(name, (times.get(name) ?? 0) + tookMs);
}

type Frame = CpuProfile['nodes'][number]['callFrame'];

/** Such as `pg`, `src/store`, `node` or `(garbage collector)`. */
function partOf({ url, functionName }: Frame): string {
  if (url === '') {
    return functionName.startsWith('(') ? functionName : 'native';
  }
  const place = relative(url);
  const [, inPackage] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(place) ?? [];
  if (inPackage !== undefined) {
    return inPackage;
  }
  return place.startsWith('node:') ? 'node' : path.dirname(place);
}

/** The file, as seen from this clone, and the line. */
function placeOf({ url, lineNumber }: Frame): string {
  return url === '' ? '' : `${relative(url)}:${lineNumber + 1}`;
}

function relative(url: string): string {
  return url.startsWith('file:') ? path.relative(OWN_TREE, fileURLToPath(url)) : url;
}
