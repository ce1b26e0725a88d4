/** What a stage of a Dockerfile does, one after another. */
type Step =
  | { kind: 'copy'; from: string | null; sources: string[]; target: string }
  | { kind: 'run'; command: string; user: string; folder: string };

/** A stage of a Dockerfile, as it ends. */
export interface Stage {
  name: string | null;
  base: string;
  steps: Step[];
  env: Record<string, string>;
  folder: string;
  user: string;
  ports: string[];
  volumes: string[];
  /** What runs, as a list of arguments. */
  command: string[];
  healthcheck: string[];
}

/**
 * Reads a Dockerfile, as far as ours goes.
 *
 * @throws where an instruction is none that this knows
 */
export function readDockerfile(text: string): Stage[] {
  const stages: Stage[] = [];
  for (const [instruction, rest] of instructionsOf(text)) {
    if (instruction === 'FROM') {
      stages.push(newStage(rest));
      continue;
    }
    const stage = stages.at(-1);
    if (stage === undefined) {
      throw new Error(`${instruction} stands before the first FROM`);
    }
    carryOut(stage, instruction, rest);
  }
  return stages;
}

function carryOut(stage: Stage, instruction: string, rest: string): void {
  switch (instruction) {
    case 'WORKDIR':
      stage.folder = rest;
      return;
    case 'USER':
      stage.user = rest;
      return;
    case 'ENV':
      Object.assign(
        stage.env,
        Object.fromEntries(rest.split(/\s+/).map((pair) => pair.split('='))),
      );
      return;
    case 'EXPOSE':
      stage.ports.push(rest);
      return;
    case 'VOLUME':
      stage.volumes.push(rest);
      return;
    case 'RUN':
      stage.steps.push({ kind: 'run', command: rest, user: stage.user, folder: stage.folder });
      return;
    case 'COPY': {
      const [, from = null, paths = ''] = /^(?:--from=(\S+)\s+)?(.+)$/.exec(rest) ?? [];
      const sources = paths.split(/\s+/);
      stage.steps.push({ kind: 'copy', from, target: sources.pop() ?? '', sources });
      return;
    }
    case 'CMD':
      stage.command = argumentsOf(rest);
      return;
    case 'HEALTHCHECK':
      stage.healthcheck = argumentsOf(rest.replace(/^.*\sCMD\s+/, ''));
      return;
    default:
      throw new Error(`an instruction that this test does not know: ${instruction}`);
  }
}

/** Each with what stands behind it; lines that go on are one. */
function instructionsOf(text: string): [instruction: string, rest: string][] {
  return text
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\s*\\\n\s*/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, instruction = '', rest = ''] = /^(\S+)\s+(.*)$/.exec(line.trim()) ?? [];
      return [instruction, rest];
    });
}

function newStage(from: string): Stage {
  const [base = '', , name = null] = from.split(/\s+/);
  const nothing = { steps: [], env: {}, ports: [], volumes: [], command: [], healthcheck: [] };
  return { name, base, folder: '/', user: 'root', ...nothing };
}

/** The form without a shell: with one, no signal would reach the program. */
function argumentsOf(json: string): string[] {
  return JSON.parse(json) as string[];
}
