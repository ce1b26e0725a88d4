import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

const LINTERS_TIMEOUT_MS = 60_000;

/** Planted files that break a rule of the layers: the linter and rule that report each, and the text. */
const VIOLATIONS = {
  'src/domain/upwards.ts': [
    'biome',
    'noRestrictedImports',
    `import type { X } from '../store/store.ts';\n`,
  ],
  'src/domain/cycle-a.ts': ['biome', 'noImportCycles', `import './cycle-b.ts';\n`],
  'src/usecases/environment.ts': [
    'biome',
    'noProcessEnv',
    `export const port = process.env['PORT'];\n`,
  ],
  'src/domain/impure.ts': ['oxlint', 'no-restricted-imports', `import 'node:fs';\n`],
  'src/domain/timer.ts': ['oxlint', 'no-restricted-globals', 'setTimeout(String, 1);\n'],
  'src/http/sql.ts': ['oxlint', 'no-restricted-imports', `import 'kysely';\n`],
  'src/http/mint.ts': ['oxlint', 'no-restricted-imports', `import '@cashu/cashu-ts';\n`],
  'src/usecases/fetch.ts': ['oxlint', 'no-restricted-globals', `void fetch('');\n`],
} as const;

const ALLOWED = {
  'src/domain/cycle-b.ts': `import './cycle-a.ts';\n`,
  'src/domain/double.ts': 'export const double = (amountSat: number): number => amountSat * 2;\n',
  'src/usecases/downwards.ts': `import '../domain/double.ts';\n`,
};

it('the linters report every import that breaks the layers', {
  timeout: LINTERS_TIMEOUT_MS,
}, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'nutpost-layers-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  for (const file of ['package.json', 'biome.jsonc', '.oxlintrc.json', 'tsconfig.json']) {
    cpSync(path.join(ROOT, file), path.join(folder, file));
  }
  const planted = Object.entries(VIOLATIONS).map(([file, [, , text]]) => [file, text] as const);
  for (const [file, text] of [...planted, ...Object.entries(ALLOWED)]) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    writeFileSync(path.join(folder, file), text);
  }
  const findings = {
    biome: await output(folder, 'biome', ['lint', '--max-diagnostics=none']),
    oxlint: await output(folder, 'oxlint', ['--format=unix']),
  };
  for (const [file, [linter, rule]] of Object.entries(VIOLATIONS)) {
    const lines = findings[linter].split('\n').filter((line) => line.includes(file));
    expect.soft(lines.join('\n')).toContain(rule);
  }
  expect.soft(findings.biome + findings.oxlint).not.toContain('downwards.ts');
});

function output(cwd: string, linter: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(
      path.join(ROOT, 'node_modules/.bin', linter),
      args,
      { cwd, env: { ...process.env, NO_COLOR: '1' } },
      (_error, stdout, stderr) => resolve(stdout + stderr),
    );
  });
}
