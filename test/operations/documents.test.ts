import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../scripts/server-process.ts';
import { type Example, type ExpectedOutput, examplesOf } from './documents/examples.ts';
import { comparable, expected } from './documents/likeness.ts';
import { readMarkdown } from './documents/markdown.ts';
import { Stage, type Terminal } from './documents/stage.ts';

/** What the README and docs/ tell a reader to run, as that reader would run it (documents/examples.ts). */

/** A document has up to thirty commands, of which some take a second and more to start. */
const DOCUMENT_TIMEOUT_MS = 300_000;

const ROOT = path.resolve(import.meta.dirname, '../..');

const DOCUMENTS = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT }).sort()]
  .map((name) => {
    const { blocks } = readMarkdown(readFileSync(path.join(ROOT, name), 'utf8'));
    return { name, examples: examplesOf(blocks) };
  })
  .filter(({ examples }) => examples.length > 0);

let stage: Stage;

beforeAll(async () => {
  stage = await Stage.open();
}, DOCUMENT_TIMEOUT_MS);

afterAll(() => stage.close());

/** Where a lost mark would otherwise not be missed. */
const MUST_HAVE_EXAMPLES = ['README.md', 'docs/api.md', 'docs/operations/backup.md'];

describe('whoever does what a document says, block by block', () => {
  it('finds something to do in those that promise it', () => {
    expect(DOCUMENTS.map(({ name }) => name)).toEqual(expect.arrayContaining(MUST_HAVE_EXAMPLES));
  });

  it.each(DOCUMENTS)(
    'gets what it shows: $name',
    { timeout: DOCUMENT_TIMEOUT_MS },
    async ({ name, examples }) => {
      const hasOwnService = examples.some(({ kind }) => kind === 'service');
      await using terminal = await stage.openTerminal(
        hasOwnService ? await freePort('127.0.0.1') : null,
      );
      for (const example of examples) {
        await follow(example, terminal, `${name}:${example.line}`);
      }
    },
  );
});

async function follow(example: Example, terminal: Terminal, place: string): Promise<void> {
  switch (example.kind) {
    case 'commands':
      for (const { script, output } of example.steps) {
        await expectStep(terminal, script, output, place);
      }
      return;
    case 'service':
      await terminal.shell.serve(terminal.real(example.script));
      return;
    case 'program':
      await writeFile(path.join(terminal.folder, 'example.mjs'), terminal.real(example.script));
      await expectStep(terminal, 'node example.mjs', example.output, place);
      return;
    case 'file':
      await writeFile(path.join(terminal.folder, example.name), terminal.real(example.text));
  }
}

async function expectStep(
  terminal: Terminal,
  script: string,
  output: ExpectedOutput | null,
  place: string,
): Promise<void> {
  const { exitCode, printed } = await terminal.shell.run(terminal.real(script));
  expect(exitCode, `${place}: ${printed}`).toBe(0);
  if (output === null) {
    return;
  }
  const came = comparable(terminal.shown(printed), output);
  const shown = expected(output);
  if (typeof shown === 'string') {
    expect(came, place).toBe(shown);
  } else {
    expect(`${came}\n`, place).toMatch(shown);
  }
}
