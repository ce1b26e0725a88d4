import type { CodeBlock } from './markdown.ts';

/**
 * A runnable code block. The marks after the language of its fence select the kind:
 *
 * - `sh run`: commands, in one shell for the whole document
 * - `console run`: commands after `$ `, each followed by its output
 * - `sh service`: a command that runs until the end of the document
 * - `js run`: a Node program
 * - `file=<name>`: a file that other blocks use
 *
 * A block marked as `output` has the output of the block before it.
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

/** Output as shown in a document. A line of three dots matches any lines. */
export interface ExpectedOutput {
  language: string;
  text: string;
}

const KNOWN_MARKS = ['run', 'service', 'output'];

/** Returns the runnable blocks of a document, in order. */
export function extractExamples(blocks: readonly CodeBlock[]): Example[] {
  return blocks.flatMap((block, index): Example[] => {
    const { line, language, marks, text } = block;
    const next = blocks[index + 1];
    const output = next?.marks.includes('output') === true ? next : null;
    const name = marks.find((mark) => mark.startsWith('file='))?.slice('file='.length);
    const unknown = marks.find((mark) => !KNOWN_MARKS.includes(mark) && !mark.startsWith('file='));
    if (unknown !== undefined) {
      throw new Error(`line ${line}: unknown mark '${unknown}'`);
    }
    if (name !== undefined) {
      return [{ line, kind: 'file', name, text }];
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

/** Splits console text into commands, which start with `$ `, and their outputs. */
function parseConsoleSteps(text: string): Step[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [script = '', ...printed] = part.split('\n');
      const output = printed.join('\n').trimEnd();
      return { script, output: output === '' ? null : { language: 'console', text: output } };
    });
}
