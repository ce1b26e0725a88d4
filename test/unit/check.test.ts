import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** `npm run check` with its configuration. */
const CHECK = ['scripts/check.ts', 'tsconfig.json', 'biome.jsonc', '.oxlintrc.json', 'knip.jsonc'];

const TOOLS = [
  '@biomejs/biome',
  '@types/node',
  'knip',
  'node',
  'oxlint',
  'oxlint-tsgolint',
  'typescript',
];

/** The check starts five programs. */
const CHECK_TIMEOUT_MS = 120_000;

it('npm run check accepts a clean project', { timeout: CHECK_TIMEOUT_MS }, async () => {
  const { ok, stdout } = await check({
    'src/cli.ts': `import { start } from './service.ts';\n\nstart();\n`,
    'src/service.ts': `import { double } from './domain/double.ts';

export function start(): number {
  return double(1);
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

it('npm run check reports the findings of all tools', { timeout: CHECK_TIMEOUT_MS }, async () => {
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
      'src/domain/upwards.ts': `import type { X } from '../store/store.ts';\n`,
      'src/domain/impure.ts': `import 'node:fs';\n\nDate.now();\nsetTimeout(String, 1);\n`,
      'src/http/sql.ts': `import 'kysely';\nimport '@cashu/cashu-ts';\nvoid fetch('');\n`,
      'src/usecases/dead-file.ts': `console.log('unused');\n`,
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
  for (const [tool, findings] of Object.entries({
    types: [/types\.ts\(1,6\): error TS1294/, /types\.ts\(5,9\): error TS2322/],
    lint: [
      /correctness\/noUndeclaredDependencies/,
      /correctness\/useImportExtensions/,
      /style\/noProcessEnv/,
      /rules\.ts:2:\S+ lint\/style\/noRestrictedImports/,
      /upwards\.ts:1:\S+ lint\/style\/noRestrictedImports/,
      /suspicious\/noConsole/,
      /suspicious\/noImportCycles/,
    ],
    'typed-lint': [
      /await-thenable/,
      /no-floating-promises/,
      /no-misused-promises/,
      /switch-exhaustiveness-check/,
      /impure\.ts:1:/,
      /impure\.ts:3:/,
      /impure\.ts:4:/,
      /sql\.ts:1:/,
      /sql\.ts:2:/,
      /sql\.ts:3:/,
    ],
    'dead-code': [/src\/usecases\/dead-file\.ts/, /^wait\s.*promises\.ts/m, /^autocannon\s/m],
    format: [/rules\.ts format/],
  })) {
    const output = stdout
      .split(/^--- (?=[a-z-]+ ---$)/m)
      .find((part) => part.startsWith(`${tool} -`));
    for (const finding of findings) {
      expect.soft(output).toMatch(finding);
    }
  }
});

/** Runs the check, with the real scripts and tools, in a project of these files. */
async function check(
  files: Record<string, string>,
  unusedDependencies: Record<string, string> = {},
): Promise<{ ok: boolean; stdout: string }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'nutpost-check-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  for (const file of CHECK) {
    cpSync(path.join(ROOT, file), path.join(folder, file));
  }
  const { scripts, devDependencies } = JSON.parse(
    readFileSync(path.join(ROOT, 'package.json'), 'utf8'),
  ) as Record<'scripts' | 'devDependencies', Record<string, string>>;
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
  const all = { ...files, 'package.json': `${JSON.stringify(manifest, null, 2)}\n` };
  for (const [name, content] of Object.entries(all)) {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  return new Promise((resolve) => {
    execFile(process.execPath, ['scripts/check.ts'], { cwd: folder }, (error, stdout) =>
      resolve({ ok: error === null, stdout }),
    );
  });
}

function only(
  record: Record<string, string>,
  wanted: (name: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => wanted(name)));
}
