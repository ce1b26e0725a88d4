import type { CodeBlock } from './markdown.ts';

/**
 * A code block that the tests run. The words after the opening fence of the block select the kind:
 *
 * - `sh run`: commands. All blocks of a document use the same shell
 * - `console run`: lines that start with `$ ` are commands, and the lines after a command are its output
 * - `sh service`: a command that runs until the end of the document
 * - `js run`: a Node program
 * - `file=<name>`: a file that other blocks use
 *
 * A block with the mark `output` contains the expected output of the block before it.
 */
export type Example = { line: number } & (
  | { kind: 'commands'; steps: readonly Step[] }
  | { kind: 'service'; script: string }
  | { kind: 'program'; script: string; output: ExpectedOutput | null }
  | { kind: 'file'; name: string; text: string }
);

interface Step {
  script: string;
  /** Null: any output is accepted. */
  output: ExpectedOutput | null;
}

/** Output as a document shows it. A line of three dots stands for any number of lines. */
export interface ExpectedOutput {
  language: string;
  text: string;
}

export function extractExamples(blocks: readonly CodeBlock[]): Example[] {
  return blocks.flatMap((block, index): Example[] => {
    const { line, language, marks, text } = block;
    const nextBlock = blocks[index + 1];
    const output = nextBlock?.marks.includes('output') === true ? nextBlock : null;
    const fileName = marks.find((mark) => mark.startsWith('file='))?.slice('file='.length);
    if (marks.some((mark) => !/^(run|service|output|file=.*)$/.test(mark))) {
      throw new Error(`line ${line}: unknown mark in '${marks.join(' ')}'`);
    }
    if (fileName !== undefined) {
      return [{ line, kind: 'file', name: fileName, text }];
    }
    if (marks.includes('service')) {
      return [{ line, kind: 'service', script: text }];
    }
    if (!marks.includes('run')) {
      return [];
    }
    switch (language) {
      case 'sh':
        return [{ line, kind: 'commands', steps: [{ script: text, output }] }];
      case 'console':
        return [{ line, kind: 'commands', steps: parseConsoleSteps(text) }];
      case 'js':
        return [{ line, kind: 'program', script: text, output }];
      default:
        throw new Error(`line ${line}: cannot run the language '${language}'`);
    }
  });
}

function parseConsoleSteps(text: string): Step[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const [script = '', ...outputLines] = step.split('\n');
      const output = outputLines.join('\n').trimEnd();
      return { script, output: output === '' ? null : { language: 'console', text: output } };
    });
}
