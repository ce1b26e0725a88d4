import { describe, expect, it } from 'vitest';
import { examplesOf } from './documents/examples.ts';
import { comparable, expected } from './documents/likeness.ts';
import { readMarkdown } from './documents/markdown.ts';

/** How documents.test.ts tells what is to be run, and whether it printed what a document shows. */

const block = (fence: string, text: string) => `\`\`\`${fence}\n${text}\n\`\`\`\n`;

describe('the blocks of a document', () => {
  it('are run where they are marked, and what stands below is what they print', () => {
    const text = `# Title\n${block('sh run', 'echo 1')}\n${block('text output', '1')}${block('sh', 'rm -rf /')}`;
    expect(examplesOf(readMarkdown(text).blocks)).toEqual([
      {
        line: 3,
        kind: 'commands',
        steps: [{ script: 'echo 1\n', output: expect.objectContaining({ text: '1\n' }) }],
      },
    ]);
  });

  it('of a terminal are commands with what each prints', () => {
    const [example] = examplesOf(
      readMarkdown(block('console run', '$ a\none\n$ b\n$ c\n3')).blocks,
    );
    expect(example).toMatchObject({
      steps: [
        { script: 'a', output: { text: 'one' } },
        { script: 'b', output: null },
        { script: 'c', output: { text: '3' } },
      ],
    });
  });

  it.each([
    ['with a mark that nobody knows', 'sh runs'],
    ['in a language that nobody can run', 'python run'],
  ])('%s are a mistake', (_name, fence) => {
    expect(() => examplesOf(readMarkdown(block(fence, 'x')).blocks)).toThrow('nobody knows');
  });
});

describe('what was printed', () => {
  const isLike = (printed: string, text: string, language = 'text') => {
    const shown = expected({ language, text });
    const came = comparable(printed, { language, text });
    return typeof shown === 'string' ? came === shown : shown.test(`${came}\n`);
  };

  it('may differ in what passes: times, keys, invoices, ids', () => {
    const first = 'npub1abc paid lnbc1xyz at 2026-11-21T07:08:18.781Z (2 s ago)';
    expect(
      isLike(first, 'npub1... paid lnbc210n1p... at 2025-01-01T00:00:00.000Z (13 min ago)'),
    ).toBe(true);
  });

  it('may not differ in anything else', () => {
    expect(isLike('21 sat', '22 sat')).toBe(false);
    expect(isLike('one\ntwo', 'one')).toBe(false);
  });

  it('may have lines that the document leaves out', () => {
    expect(isLike('one\ntwo\nthree', 'one\n...')).toBe(true);
    expect(isLike('one\ntwo\nthree', '...\ntwo\n...')).toBe(true);
    expect(isLike('one\ntwo\nthree', '...\nfour\n...')).toBe(false);
  });

  it('is compared as JSON where it is that, however it is set', () => {
    expect(isLike('{"a":1}', '{\n  "a": 1\n}', 'json')).toBe(true);
    expect(isLike('{"a":1}', '{ "a": 2 }', 'json')).toBe(false);
  });
});
