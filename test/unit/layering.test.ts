import path from 'node:path';
import { expect, it } from 'vitest';
import { PlantedProject } from '../helpers/planted-project.ts';

const LOWEST = ['net', 'domain', 'auth', 'ecash'];
const ENTRIES = ['http', 'http/api', 'watcher', 'metrics', 'commands'];
const USECASES = ['usecases', 'usecases/diagnose'];
const ADAPTERS = ['store', 'mint', 'lnurl', 'relays', 'notifications'];

/** docs/architecture.md: cli -> service -> {http, watcher, metrics, commands} -> usecases -> adapters -> lowest. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  cli: ['service', 'doctor', 'commands', 'config', 'log', 'demo', 'domain'],
  service: ['till', 'config', 'log', ...ENTRIES, ...USECASES, ...ADAPTERS, ...LOWEST],
  doctor: ['config', 'log', 'commands', ...USECASES, ...ADAPTERS, ...LOWEST],
  till: ['config', 'log', ...USECASES, ...ADAPTERS, ...LOWEST],
  config: ['domain'],
  log: ['domain'],
  http: ['http/api', ...USECASES, ...ADAPTERS, ...LOWEST, 'log'],
  'http/api': ['http', ...USECASES, ...ADAPTERS, ...LOWEST, 'log'],
  watcher: [...USECASES, ...ADAPTERS, ...LOWEST, 'log'],
  metrics: [...USECASES, ...ADAPTERS, ...LOWEST, 'log'],
  commands: [...USECASES, ...ADAPTERS, ...LOWEST, 'log'],
  usecases: ['usecases/diagnose', ...ADAPTERS, ...LOWEST, 'log'],
  'usecases/diagnose': ['usecases', ...ADAPTERS, ...LOWEST, 'log'],
  store: [...LOWEST, 'log', 'migrations'],
  mint: [...LOWEST, 'log'],
  lnurl: [...LOWEST, 'log'],
  relays: [...LOWEST, 'log'],
  notifications: [...LOWEST, 'log'],
  net: ['domain', 'log'],
  auth: ['domain'],
  ecash: ['domain'],
  domain: [],
  demo: ['service', 'config', 'log', 'domain'],
  migrations: [],
  // Nobody of those above may import the tests or the figures.
  test: [],
  bench: [],
};

/** Which folders may import which library; the demo plays all parties and may use any. */
const MAY_USE: Record<string, readonly string[]> = {
  kysely: ['store'],
  'kysely/migration': ['store'],
  pg: ['store'],
  '@electric-sql/pglite': ['store'],
  fastify: ['http'],
  '@fastify/websocket': ['http'],
  'fastify-type-provider-zod': ['http'],
  undici: ['net'],
  ws: ['net', 'http'],
  '@cashu/cashu-ts': ['ecash'],
  'prom-client': ['metrics'],
};

const FILES = ['cli', 'service', 'doctor', 'till', 'config', 'log'];
const OUTSIDE_SRC = ['migrations', 'test', 'bench'];

it('lets imports point one way only', async () => {
  const sources = Object.keys(MAY_IMPORT).filter((part) => !['test', 'bench'].includes(part));
  const targets = Object.keys(MAY_IMPORT);
  const edges = sources.flatMap((from) =>
    targets.filter((to) => to !== from).map((to) => ({ from, to, file: importPath(from, to) })),
  );
  const statements = [
    (file: string) => `import '${file}';`,
    (file: string) => `import type { X } from '${file}';`,
    (file: string) => `export { X } from '${file}';`,
    (file: string) => `void import('${file}');`,
  ];

  const found = await Promise.all(
    statements.map((statement) =>
      biomeFindings(
        'noRestrictedImports',
        edges.map(({ from, to, file }) => ({ from, to, line: statement(file) })),
      ),
    ),
  );

  const forbidden = edges
    .filter(({ from, to }) => !MAY_IMPORT[from]?.includes(to))
    .map(({ from, to }) => `${from} -> ${to}`)
    .sort();
  for (const findings of found) {
    expect(findings).toEqual(forbidden);
  }
});

it('gives each library to one folder', async () => {
  const folders = Object.keys(MAY_IMPORT).filter(
    (part) => !OUTSIDE_SRC.includes(part) && part !== 'demo',
  );
  const edges = folders.flatMap((from) => Object.keys(MAY_USE).map((to) => ({ from, to })));

  const found = await oxlintFindings(
    edges.map(({ from, to }) => ({ from, to, line: `import '${to}';` })),
  );

  const forbidden = edges
    .filter(({ from, to }) => !MAY_USE[to]?.some((owner) => from.split('/')[0] === owner))
    .map(({ from, to }) => `${from} -> ${to}`)
    .sort();
  expect(found).toEqual(forbidden);
});

it.each(['domain', 'auth', 'ecash'])('keeps %s free of I/O, clock and chance', async (folder) => {
  const impure = [
    `import 'node:fs';`,
    `import 'node:fs/promises';`,
    `import 'node:net';`,
    `import 'pino';`,
    `fetch('');`,
    `process.cwd();`,
    `setTimeout(String, 1);`,
    `Date.now();`,
    `Math.random();`,
  ];
  const pure = [`import 'node:crypto';`, `import 'zod';`, `new Date(0);`];

  const found = await oxlintFindings(
    [...impure, ...pure].map((line) => ({ from: folder, to: line, line })),
  );

  expect(found).toEqual(impure.map((line) => `${folder} -> ${line}`).sort());
});

it('lets config.ts alone read the environment', async () => {
  const sources = Object.keys(MAY_IMPORT).filter((part) => !OUTSIDE_SRC.includes(part));

  const found = await biomeFindings(
    'noProcessEnv',
    sources.map((from) => ({ from, to: 'process.env', line: 'process.env.PORT;' })),
  );

  expect(found).toEqual(
    sources
      .filter((from) => from !== 'config')
      .map((from) => `${from} -> process.env`)
      .sort(),
  );
});

interface Planted {
  from: string;
  to: string;
  line: string;
}

async function biomeFindings(rule: string, planted: readonly Planted[]): Promise<string[]> {
  const project = new PlantedProject(plant(planted));
  const { stdout } = await project.node(
    'node_modules/@biomejs/biome/bin/biome',
    ...['lint', '--reporter=json', '--max-diagnostics=none'],
  );
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { category: string; location: { path: string; start: { line: number } } }[];
  };
  return diagnostics
    .filter(({ category }) => category.endsWith(`/${rule}`))
    .map(({ location }) => name(planted, location.path, location.start.line))
    .sort();
}

async function oxlintFindings(planted: readonly Planted[]): Promise<string[]> {
  const project = new PlantedProject(plant(planted));
  const { stdout } = await project.node('node_modules/oxlint/bin/oxlint', '--format=json');
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { filename: string; labels: { span: { line: number } }[] }[];
  };
  return diagnostics
    .map(({ filename, labels }) => name(planted, filename, labels[0]?.span.line ?? 0))
    .sort();
}

/** One file for each part of the project, one line for each thing planted in it. */
function plant(planted: readonly Planted[]): Record<string, string> {
  const files: Record<string, string> = {};
  for (const { from, line } of planted) {
    files[fileOf(from)] = `${files[fileOf(from)] ?? ''}${line}\n`;
  }
  return files;
}

function name(planted: readonly Planted[], file: string, line: number): string {
  const found = planted.filter(({ from }) => fileOf(from) === file)[line - 1];
  return found === undefined ? `${file}:${line}` : `${found.from} -> ${found.to}`;
}

function fileOf(part: string): string {
  const folder = OUTSIDE_SRC.includes(part) ? part : `src/${part}`;
  return FILES.includes(part) ? `${folder}.ts` : `${folder}/planted.ts`;
}

function importPath(from: string, to: string): string {
  const relative = path.posix.relative(path.posix.dirname(fileOf(from)), fileOf(to));
  return relative.startsWith('.') ? relative : `./${relative}`;
}
