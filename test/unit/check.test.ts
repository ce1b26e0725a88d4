import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { PlantedProject } from '../helpers/planted-project.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

const TOOLS = [
  '@biomejs/biome',
  '@types/node',
  'knip',
  'node',
  'oxlint',
  'oxlint-tsgolint',
  'typescript',
];

/** Five tools run in one check, each starting a program of its own. */
const CHECK_TIMEOUT_MS = 120_000;

it('finds nothing in a clean project', { timeout: CHECK_TIMEOUT_MS }, async () => {
  const { ok, stdout } = await check({
    'src/cli.ts': `import { start } from './service.ts';\n\nawait start();\n`,
    'src/service.ts': `import { issue } from './usecases/issue.ts';

export async function start(): Promise<void> {
  await issue(1);
}
`,
    'src/usecases/issue.ts': `import { double } from '../domain/double.ts';

export async function issue(amountSat: number): Promise<number> {
  return double(amountSat);
}
`,
    'src/domain/double.ts': `export function double(amountSat: number): number {
  return amountSat * 2;
}
`,
  });

  expect(stdout).toMatch(/^(\nok {6}[a-z-]+ \([\d.]+ s\)){5}\n$/);
  expect(ok).toBe(true);
});

it('shows every finding of every tool at once, and fails', {
  timeout: CHECK_TIMEOUT_MS,
}, async () => {
  const { ok, stdout } = await check(
    {
      'src/cli.ts': `import './service.ts';\nimport './domain/cycle-a.ts';\n`,
      'src/service.ts': `import * as promises from './usecases/promises.ts';
import * as rules from './usecases/rules.ts';
import * as types from './usecases/types.ts';

promises.settle('paid');
rules.print();
types.add();
`,
      'src/domain/cycle-a.ts': `import './cycle-b.ts';\n`,
      'src/domain/cycle-b.ts': `import './cycle-a.ts';\n`,
      'src/usecases/dead-file.ts': `console.log('nobody imports this');\n`,
      'src/usecases/promises.ts': `type State = 'paid' | 'issued';

async function save(): Promise<boolean> {
  return true;
}

export function settle(state: State): void {
  save();
  if (save()) {
    [1].forEach(save);
  }
  switch (state) {
    case 'paid':
      return;
  }
}

export async function wait(): Promise<void> {
  await 1;
}
`,
      'src/usecases/rules.ts': `import 'fast-check';
import { service } from '../service';

export const print = () => {   console.log(service, process.env['PORT']);
};
`,
      'src/usecases/types.ts': `enum State { Paid }

export function add(): number {
  const list = [1];
  const first: number = list[0];
  return first + 'text' + State.Paid;
}
`,
    },
    { autocannon: '9.0.0' },
  );

  expect(ok).toBe(false);
  for (const [name, findings] of Object.entries({
    types: [/types\.ts\(1,6\): error TS1294/, /types\.ts\(5,9\): error TS2322/],
    lint: [
      /correctness\/noUndeclaredDependencies/,
      /correctness\/useImportExtensions/,
      /style\/noProcessEnv/,
      /style\/noRestrictedImports/,
      /suspicious\/noConsole/,
      /suspicious\/noImportCycles/,
    ],
    'typed-lint': [
      /await-thenable/,
      /no-floating-promises/,
      /no-misused-promises/,
      /switch-exhaustiveness-check/,
    ],
    'dead-code': [/src\/usecases\/dead-file\.ts/, /^wait\s.*promises\.ts/m, /^autocannon\s/m],
    format: [/rules\.ts format/],
  })) {
    for (const finding of findings) {
      expect.soft(findingsOf(name, stdout)).toMatch(finding);
    }
  }
});

/** `npm run check` in a project with these files, the real scripts and the real tools. */
function check(
  files: Record<string, string>,
  unusedDependencies: Record<string, string> = {},
): Promise<{ ok: boolean; stdout: string }> {
  const { scripts, devDependencies } = JSON.parse(read('package.json')) as {
    scripts: Record<string, string>;
    devDependencies: Record<string, string>;
  };
  const manifest = {
    name: 'planted',
    type: 'module',
    bin: { planted: 'src/cli.ts' },
    scripts: only(scripts, (name) => name.split(':')[0] === 'check'),
    devDependencies: {
      ...only(devDependencies, (name) => TOOLS.includes(name)),
      ...unusedDependencies,
    },
  };
  return new PlantedProject({
    'package.json': `${JSON.stringify(manifest, null, 2)}\n`,
    'scripts/check.ts': read('scripts/check.ts'),
    ...files,
  }).node('scripts/check.ts');
}

function only(
  record: Record<string, string>,
  wanted: (name: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => wanted(name)));
}

function findingsOf(name: string, output: string): string {
  return (
    output.split(/^--- (?=[a-z-]+ ---$)/m).find((part) => part.startsWith(`${name} ---`)) ?? ''
  );
}

function read(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8');
}
