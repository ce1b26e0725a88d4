export interface CodeBlock {
  /** Of the first line of code in the document, from 1. */
  line: number;
  language: string;
  /** Words after the language, such as `run` or `file=sign.js`. */
  marks: readonly string[];
  text: string;
}

export interface Document {
  blocks: readonly CodeBlock[];
  /** Text outside of fenced blocks, including `code spans`. */
  prose: string;
  /** Link targets of headings, such as `#moving-a-mint`. */
  anchors: ReadonlySet<string>;
  links: readonly string[];
}

/** A fence may be indented, because code blocks in list items are indented. */
const FENCE = /^( *)(`{3,}|~{3,})\s*(\S*)\s*(.*)$/;

export function parseMarkdown(text: string): Document {
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
    const closingIndex = lines.indexOf(`${indent}${fence}`, index + 1);
    if (closingIndex === -1) {
      throw new Error(`line ${index + 1}: the code block is not closed`);
    }
    blocks.push({
      line: index + 2,
      language,
      marks: marks.split(' ').filter((mark) => mark !== ''),
      text: lines
        .slice(index + 1, closingIndex)
        .map((codeLine) => `${codeLine.slice(indent.length)}\n`)
        .join(''),
    });
    index = closingIndex;
  }
  const prose = proseLines.join('\n');
  return {
    blocks,
    prose,
    anchors: new Set(headings.map(headingAnchor)),
    links: [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target),
  };
}

/** Returns the anchor that GitHub generates for a heading. */
function headingAnchor(title: string): string {
  const plain = title.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
  return `#${plain.replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')}`;
}
