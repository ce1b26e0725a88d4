import type { CodeBlock } from './markdown.ts';

/**
 * A block that is marked as runnable, by what follows the language of its fence:
 *
 * - `sh run`: commands, in one shell for the whole document;
 * - `console run`: commands after `$ `, each with what it prints below it;
 * - `sh service`: a command that runs on, until the end of the document;
 * - `js run`: a program for Node;
 * - `file=<name>`: not run, but kept as a file that others use.
 *
 * A block marked as `output`, right after one that is run, is what that prints.
 */
export type Example = { line: number } & (
  | { kind: 'commands'; steps: readonly Step[] }
  | { kind: 'service'; script: string }
  | { kind: 'program'; script: string; output: ExpectedOutput | null }
  | { kind: 'file'; name: string; text: string }
);

/** A part of a script, and what it prints. */
interface Step {
  script: string;
  /** Null: whatever it prints will do. */
  output: ExpectedOutput | null;
}

/** What a document shows as printed. A line of three dots stands for any lines. */
export interface ExpectedOutput {
  language: string;
  text: string;
}

const MARKS = ['run', 'service', 'output'];

/** The runnable blocks of a document, in their order. */
export function examplesOf(blocks: readonly CodeBlock[]): Example[] {
  return blocks.flatMap((block, index): Example[] => {
    const { line, language, marks, text } = block;
    const next = blocks[index + 1];
    const output = next?.marks.includes('output') === true ? next : null;
    const name = marks.find((mark) => mark.startsWith('file='))?.slice('file='.length);
    const unknown = marks.find((mark) => !MARKS.includes(mark) && !mark.startsWith('file='));
    if (unknown !== undefined) {
      throw new Error(`line ${line}: nobody knows the mark '${unknown}'`);
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
        return [{ line, kind: 'commands', steps: consoleSteps(text) }];
      case 'js':
        return [{ line, kind: 'program', script: text, output }];
      default:
        throw new Error(`line ${line}: nobody knows how to run '${language}'`);
    }
  });
}

/** Commands begin with `$ `; what follows one is what it prints. */
function consoleSteps(text: string): Step[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [script = '', ...printed] = part.split('\n');
      const output = printed.join('\n').trimEnd();
      return { script, output: output === '' ? null : { language: 'console', text: output } };
    });
}
