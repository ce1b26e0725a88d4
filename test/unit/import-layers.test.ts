import { execFile } from 'node:child_process';
import fs, { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

const RESTRICTED_IMPORT = ['biome', 'noRestrictedImports'] as const;

/** Files that each violate one rule: the linter that must report the file, the rule, and the file's text. */
const VIOLATIONS = {
  'src/mints/upwards.ts': [...RESTRICTED_IMPORT, `import type { X } from '../quotes/x.ts';\n`],
  'src/usernames/sideways.ts': [...RESTRICTED_IMPORT, `import type { X } from '../zaps/x.ts';\n`],
  'src/usernames/ecash/nested.ts': [
    ...RESTRICTED_IMPORT,
    `import type { X } from '../../http/x.ts';\n`,
  ],
  'src/watcher/sibling.ts': [...RESTRICTED_IMPORT, `import type { X } from '../http/x.ts';\n`],
  'src/quotes/root.ts': [...RESTRICTED_IMPORT, `import type { X } from '../service.ts';\n`],
  'src/errors.ts': [...RESTRICTED_IMPORT, `import type { X } from './net/x.ts';\n`],
  'src/new-at-root.ts': [...RESTRICTED_IMPORT, `import type { X } from './http/x.ts';\n`],
  'src/config.ts': [...RESTRICTED_IMPORT, `import type { X } from './database/x.ts';\n`],
  'src/zaps/bench.ts': [...RESTRICTED_IMPORT, `import type { X } from '../../bench/x.ts';\n`],
  'src/net/cycle-a.ts': ['biome', 'noImportCycles', `import './cycle-b.ts';\n`],
  'src/zaps/type-cycle-a.ts': [
    'biome',
    'noImportCycles',
    `import type { B } from './type-cycle-b.ts';\nexport type A = B;\n`,
  ],
  'src/quotes/environment.ts': [
    'biome',
    'noProcessEnv',
    `export const port = process.env['PORT'];\n`,
  ],
  'src/quotes/quote-state.ts': ['oxlint', 'no-restricted-imports', `import 'node:fs';\n`],
  'src/watcher/poll-schedule.ts': ['oxlint', 'no-restricted-globals', 'setTimeout(String, 1);\n'],
  'src/quotes/bolt11.ts': ['oxlint', 'no-restricted-properties', 'Date.now();\n'],
  'src/http/sql.ts': ['oxlint', 'no-restricted-imports', `import 'kysely';\n`],
  'src/http/mint.ts': ['oxlint', 'no-restricted-imports', `import '@cashu/cashu-ts';\n`],
  'src/zaps/connect.ts': [
    'oxlint',
    'no-restricted-imports',
    `import { get } from 'node:https';\nget('');\n`,
  ],
  'src/quotes/lnurl-pay.ts': [
    'oxlint',
    'no-restricted-imports',
    `import { randomUUID } from 'node:crypto';\nrandomUUID();\n`,
  ],
  'src/zaps/fetch.ts': ['oxlint', 'no-restricted-globals', `void fetch('');\n`],
} as const;

/** Files that other files import, and files whose imports are allowed. */
const OTHER_FILES = {
  'src/net/cycle-b.ts': `import './cycle-a.ts';\n`,
  'src/zaps/type-cycle-b.ts': `import type { A } from './type-cycle-a.ts';\nexport type B = A;\n`,
  'src/mints/double.ts': 'export const double = (amountSat: number): number => amountSat * 2;\n',
  'src/zaps/downwards.ts': `import '../mints/double.ts';\nimport '../quotes/feature.ts';\n`,
  'src/quotes/feature.ts': 'export const feature = 1;\n',
};

it('reports every forbidden import or global, and no allowed import', {
  timeout: 60_000,
}, async () => {
  const projectFolder = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-layers-'));
  onTestFinished(() => fs.rmSync(projectFolder, { recursive: true, force: true }));
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(projectFolder, 'node_modules'));
  for (const file of ['package.json', 'biome.jsonc', '.oxlintrc.json', 'tsconfig.json']) {
    fs.cpSync(path.join(ROOT, file), path.join(projectFolder, file));
  }
  const violatingFiles = Object.entries(VIOLATIONS).map(
    ([file, [, , text]]) => [file, text] as const,
  );
  for (const [file, text] of [...violatingFiles, ...Object.entries(OTHER_FILES)]) {
    fs.mkdirSync(path.dirname(path.join(projectFolder, file)), { recursive: true });
    fs.writeFileSync(path.join(projectFolder, file), text);
  }
  const outputs = {
    biome: await runLinter(projectFolder, 'biome', ['lint', '--max-diagnostics=none']),
    oxlint: await runLinter(projectFolder, 'oxlint', ['--format=unix']),
  };
  for (const [file, [linter, rule]] of Object.entries(VIOLATIONS)) {
    const lines = outputs[linter].split('\n').filter((line) => line.includes(file));
    expect.soft(lines.join('\n')).toContain(rule);
  }
  for (const file of ['downwards.ts', 'feature.ts']) {
    expect.soft(outputs.biome + outputs.oxlint).not.toContain(file);
  }
});

function runLinter(cwd: string, linter: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(
      path.join(ROOT, 'node_modules/.bin', linter),
      args,
      { cwd, env: { ...process.env, NO_COLOR: '1' } },
      (_error, stdout, stderr) => resolve(stdout + stderr),
    );
  });
}

it('lists as pure only files that import pure files', () => {
  const config = readFileSync(path.join(ROOT, '.oxlintrc.json'), 'utf8');
  const [, pureSection = ''] = config.split('// Pure rules');
  const pureFiles = [...pureSection.matchAll(/"(src\/[^"*]+\.ts)"/g)].map(([, file = '']) => file);
  expect(pureFiles.length).toBeGreaterThan(20);
  for (const file of pureFiles) {
    const source = readFileSync(path.join(ROOT, file), 'utf8');
    const imports = [...source.matchAll(/^import (?!type )[^;]*? from '(\.[^']+)';/gm)]
      .map(([, target = '']) => path.posix.join(path.posix.dirname(file), target))
      .filter((target) => !pureFiles.includes(target));
    expect(imports, file).toEqual([]);
  }
});
