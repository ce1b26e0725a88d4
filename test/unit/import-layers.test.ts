import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

const LINTERS_TIMEOUT_MS = 60_000;

/** Temporary files that each violate one rule: the linter and the rule that must report it, and the file's text. */
const VIOLATIONS = {
  'src/mints/upwards.ts': [
    'biome',
    'noRestrictedImports',
    `import type { X } from '../quotes/x.ts';\n`,
  ],
  'src/usernames/sideways.ts': [
    'biome',
    'noRestrictedImports',
    `import type { X } from '../zaps/x.ts';\n`,
  ],
  'src/usernames/ecash/nested.ts': [
    'biome',
    'noRestrictedImports',
    `import type { X } from '../../http/x.ts';\n`,
  ],
  'src/watcher/sibling.ts': [
    'biome',
    'noRestrictedImports',
    `import type { X } from '../http/x.ts';\n`,
  ],
  'src/quotes/root.ts': [
    'biome',
    'noRestrictedImports',
    `import type { X } from '../service.ts';\n`,
  ],
  'src/errors.ts': ['biome', 'noRestrictedImports', `import type { X } from './net/x.ts';\n`],
  'src/net/cycle-a.ts': ['biome', 'noImportCycles', `import './cycle-b.ts';\n`],
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
  'src/zaps/fetch.ts': ['oxlint', 'no-restricted-globals', `void fetch('');\n`],
} as const;

const ALLOWED = {
  'src/net/cycle-b.ts': `import './cycle-a.ts';\n`,
  'src/mints/double.ts': 'export const double = (amountSat: number): number => amountSat * 2;\n',
  'src/zaps/downwards.ts': `import '../mints/double.ts';\nimport '../quotes/feature.ts';\n`,
  'src/quotes/feature.ts': `import type { Store } from '../store.ts';\nexport type S = Store;\n`,
  'src/store.ts': 'export interface Store {\n  name: string;\n}\n',
};

it('reports every import that violates the layers', {
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
  for (const file of ['downwards.ts', 'feature.ts']) {
    expect.soft(findings.biome + findings.oxlint).not.toContain(file);
  }
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
