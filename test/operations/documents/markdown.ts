export interface CodeBlock {
  /** Of its first line of code, from 1. */
  line: number;
  /** Such as `sh`; empty where none is given. */
  language: string;
  /** What follows the language, such as `run` or `file=sign.js`. */
  marks: readonly string[];
  text: string;
}

/** What of a document a machine can check. */
export interface Document {
  blocks: readonly CodeBlock[];
  /** What stands outside of fenced blocks, with its `code spans`. */
  prose: string;
  /** As links name headings: `#moving-a-mint`. */
  anchors: ReadonlySet<string>;
  links: readonly string[];
}

/** In a list, a block is as far to the right as the text of its item. */
const FENCE = /^( *)(`{3,}|~{3,})\s*(\S*)\s*(.*)$/;

/** Reads a document of Markdown, as far as these tests need it. */
export function readMarkdown(text: string): Document {
  const blocks: CodeBlock[] = [];
  const proseLines: string[] = [];
  const headings: string[] = [];
  const lines = text.split('\n');
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? '';
    const [, indent = '', fence, language = '', marks = ''] = FENCE.exec(line) ?? [];
    if (fence === undefined) {
      proseLines.push(line);
      const title = /^#{1,6} (.*)$/.exec(line)?.[1];
      if (title !== undefined) {
        headings.push(title);
      }
      continue;
    }
    const end = lines.indexOf(`${indent}${fence}`, index + 1);
    if (end === -1) {
      throw new Error(`line ${index + 1}: the block has no end`);
    }
    blocks.push({
      line: index + 2,
      language,
      marks: marks.split(' ').filter((mark) => mark !== ''),
      text: lines
        .slice(index + 1, end)
        .map((each) => `${each.slice(indent.length)}\n`)
        .join(''),
    });
    index = end;
  }
  const prose = proseLines.join('\n');
  return {
    blocks,
    prose,
    anchors: new Set(headings.map(anchorOf)),
    links: [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target),
  };
}

/** As GitHub makes them. */
function anchorOf(title: string): string {
  const plain = title.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
  return `#${plain.replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')}`;
}
