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

/** A document has up to thirty commands, some of which take a second to start. */
const DOCUMENT_TIMEOUT_MS = 300_000;

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS_WITH_EXAMPLES = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT }).sort()]
  .map((name) => {
    const { blocks } = parseMarkdown(readFileSync(path.join(ROOT, name), 'utf8'));
    return { name, examples: extractExamples(blocks) };
  })
  .filter(({ examples }) => examples.length > 0);

const cleanup = new AsyncDisposableStack();
let environment: ExampleEnvironment;

beforeAll(async () => {
  environment = await startExampleEnvironment(cleanup);
}, DOCUMENT_TIMEOUT_MS);

afterAll(() => cleanup.disposeAsync());

it('finds examples in the documents that must have examples', () => {
  const names = DOCUMENTS_WITH_EXAMPLES.map(({ name }) => name);
  const required = ['README.md', 'docs/api.md', 'docs/operations/backup.md'];
  expect(names).toEqual(expect.arrayContaining(required));
});

it.each(DOCUMENTS_WITH_EXAMPLES)(
  'prints the output that $name shows',
  { timeout: DOCUMENT_TIMEOUT_MS },
  async ({ name, examples }) => {
    await using stack = new AsyncDisposableStack();
    const startsService = examples.some(({ kind }) => kind === 'service');
    const exampleServicePort = startsService ? await findFreePort('127.0.0.1') : null;
    // The README and docs/api.md are for people who try the service in a clone.
    const isOperatorGuide = !startsService && !['README.md', 'docs/api.md'].includes(name);
    const options = { exampleServicePort, isOperatorGuide };
    const terminal = await openExampleTerminal(environment, options, stack);
    for (const example of examples) {
      await runExample(example, terminal, `${name}:${example.line}`);
    }
  },
);

async function runExample(example: Example, terminal: ExampleTerminal, location: string) {
  switch (example.kind) {
    case 'commands':
      for (const { script, output } of example.steps) {
        await runAndCompareOutput(terminal, script, output, location);
      }
      return;
    case 'service':
      await terminal.shell.startService(terminal.toActual(example.script));
      return;
    case 'program':
      await writeFile(path.join(terminal.folder, 'example.mjs'), terminal.toActual(example.script));
      await runAndCompareOutput(terminal, 'node example.mjs', example.output, location);
      return;
    case 'file':
      await writeFile(path.join(terminal.folder, example.name), terminal.toActual(example.text));
  }
}

async function runAndCompareOutput(
  { shell, toActual, toDocumented }: ExampleTerminal,
  script: string,
  expectedOutput: ExpectedOutput | null,
  location: string,
): Promise<void> {
  const { hasFailed, printed } = await shell.run(toActual(script));
  expect(hasFailed, `${location}: ${printed}`).toBe(false);
  if (expectedOutput !== null) {
    expect(normaliseOutput(toDocumented(printed), expectedOutput), location).toMatch(
      buildExpectedPattern(expectedOutput),
    );
  }
}
