import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findFreePort } from '../../scripts/server-process.ts';
import {
  type ExampleEnvironment,
  type ExampleTerminal,
  openExampleTerminal,
  startExampleEnvironment,
} from './documents/example-environment.ts';
import { type Example, type ExpectedOutput, extractExamples } from './documents/examples.ts';
import { parseMarkdown } from './documents/markdown.ts';
import { buildExpectedPattern, normaliseOutput } from './documents/output-matching.ts';

/** Runs the examples of the README and docs/, and compares their output (documents/examples.ts). */

/** A document has up to thirty commands, some of which take a second to start. */
const DOCUMENT_TIMEOUT_MS = 300_000;

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT }).sort()]
  .map((name) => {
    const { blocks } = parseMarkdown(readFileSync(path.join(ROOT, name), 'utf8'));
    return { name, examples: extractExamples(blocks) };
  })
  .filter(({ examples }) => examples.length > 0);

/** Documents that must contain marked examples. */
const MUST_HAVE_EXAMPLES = ['README.md', 'docs/api.md', 'docs/operations/backup.md'];

const end = new AsyncDisposableStack();
let stage: ExampleEnvironment;

beforeAll(async () => {
  stage = await startExampleEnvironment(end);
}, DOCUMENT_TIMEOUT_MS);

afterAll(() => end.disposeAsync());

it('finds examples where they are expected', () => {
  expect(DOCUMENTS.map(({ name }) => name)).toEqual(expect.arrayContaining(MUST_HAVE_EXAMPLES));
});

it.each(DOCUMENTS)(
  'prints what $name shows',
  { timeout: DOCUMENT_TIMEOUT_MS },
  async ({ name, examples }) => {
    await using stack = new AsyncDisposableStack();
    const hasOwnService = examples.some(({ kind }) => kind === 'service');
    const ownPort = hasOwnService ? await findFreePort('127.0.0.1') : null;
    const terminal = await openExampleTerminal(stage, ownPort, stack);
    for (const example of examples) {
      await follow(example, terminal, `${name}:${example.line}`);
    }
  },
);

async function follow(example: Example, terminal: ExampleTerminal, place: string): Promise<void> {
  switch (example.kind) {
    case 'commands':
      for (const { script, output } of example.steps) {
        await expectStep(terminal, script, output, place);
      }
      return;
    case 'service':
      await terminal.shell.startService(terminal.toActual(example.script));
      return;
    case 'program':
      await writeFile(path.join(terminal.folder, 'example.mjs'), terminal.toActual(example.script));
      await expectStep(terminal, 'node example.mjs', example.output, place);
      return;
    case 'file':
      await writeFile(path.join(terminal.folder, example.name), terminal.toActual(example.text));
  }
}

async function expectStep(
  { shell, toActual: real, toDocumented: shown }: ExampleTerminal,
  script: string,
  output: ExpectedOutput | null,
  place: string,
): Promise<void> {
  const { hasFailed, printed } = await shell.run(real(script));
  expect(hasFailed, `${place}: ${printed}`).toBe(false);
  if (output !== null) {
    expect(normaliseOutput(shown(printed), output), place).toMatch(buildExpectedPattern(output));
  }
}
