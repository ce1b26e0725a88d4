import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';

/**
 * `node scripts/record-demo.ts [FILE]`: runs the demo, and draws its output as a terminal window in an SVG file
 * (default: docs/images/demo.svg). The window has its own background, so it is readable on light and dark pages.
 */

const ROOT = path.resolve(import.meta.dirname, '..');
const DEFAULT_FILE = path.join(ROOT, 'docs/images/demo.svg');

/** The port in the documentation's examples. */
const PORT = '3000';

/** The command that the drawn terminal shows. */
const SHOWN_COMMAND = 'npm run demo';

/** Sizes in pixels. In most monospaced fonts, the width of a character is 0.6 times the font size. */
const FONT_SIZE = 14;
const CHARACTER_WIDTH = 8.4;
const LINE_HEIGHT = 20;
const PADDING = 20;
const TITLE_BAR_HEIGHT = 36;

const COLORS = {
  background: '#161b22',
  border: '#484f58',
  text: '#e6edf3',
  dim: '#9198a1',
  green: '#56d364',
  red: '#ff7b72',
  title: '#9198a1',
  windowButtons: ['#ff5f57', '#febc2e', '#28c840'],
};

/** SVG attributes for each number in the escape codes of `util.styleText`. */
const SVG_STYLES: Readonly<Record<string, string>> = {
  1: 'font-weight="bold"',
  2: `fill="${COLORS.dim}"`,
  31: `fill="${COLORS.red}"`,
  32: `fill="${COLORS.green}"`,
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes begin with a control character.
const ESCAPE_CODE = /\u001b\[(\d+)m/;

const [svgFile = DEFAULT_FILE] = process.argv.slice(2);
const lines = [`$ ${SHOWN_COMMAND}`, '', ...(await runDemo()).trimEnd().split('\n')];
await writeFile(svgFile, renderTerminal(lines));

async function runDemo(): Promise<string> {
  const args = [path.join(ROOT, 'bin/nutpost.js'), 'demo', '--port', PORT];
  const { NO_COLOR: _, ...env } = process.env;
  const demo = spawn(process.execPath, args, {
    env: { ...env, FORCE_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise<number | null>((resolve) => demo.once('close', resolve));
  const output = await text(demo.stdout);
  const exitCode = await exited;
  if (exitCode !== 0) {
    throw new Error(`The demo exited with code ${exitCode}:\n${output}`);
  }
  return output;
}

function renderTerminal(terminalLines: readonly string[]): string {
  const columns = Math.max(...terminalLines.map((line) => removeEscapeCodes(line).length));
  const width = Math.ceil(columns * CHARACTER_WIDTH) + 2 * PADDING;
  const height = TITLE_BAR_HEIGHT + terminalLines.length * LINE_HEIGHT + 2 * PADDING;
  const firstBaseline = TITLE_BAR_HEIGHT + PADDING + FONT_SIZE;
  const buttons = COLORS.windowButtons.map(
    (color, index) => `<circle cx="${20 + 20 * index}" cy="18" r="6" fill="${color}"/>`,
  );
  const rows = terminalLines.map((line, index) => {
    const y = firstBaseline + index * LINE_HEIGHT;
    return `<text x="${PADDING}" y="${y}">${renderLine(line)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" \
viewBox="0 0 ${width} ${height}" role="img" aria-label="Output of ${SHOWN_COMMAND}">
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" \
fill="${COLORS.background}" stroke="${COLORS.border}"/>
${buttons.join('\n')}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" \
font-size="${FONT_SIZE}" fill="${COLORS.text}">
<text x="${width / 2}" y="23" text-anchor="middle" fill="${COLORS.title}">${SHOWN_COMMAND}</text>
${rows.join('\n')}
</g>
</svg>
`;
}

/**
 * Returns a `tspan` for each styled part of a line, with an x position. The positions keep columns aligned, because
 * SVG collapses spaces and the viewer's font may have another width.
 */
function renderLine(line: string): string {
  let column = 0;
  let style = '';
  let svg = '';
  for (const [index, part] of line.split(ESCAPE_CODE).entries()) {
    // The split results in text at even positions and codes at odd positions.
    if (index % 2 === 1) {
      style = SVG_STYLES[part] ?? '';
      continue;
    }
    const visibleText = part.trim();
    if (visibleText !== '') {
      const x = PADDING + (column + part.indexOf(visibleText)) * CHARACTER_WIDTH;
      svg += `<tspan x="${x.toFixed(1)}" ${style}>${escapeXml(visibleText)}</tspan>`;
    }
    column += part.length;
  }
  return svg;
}

function removeEscapeCodes(line: string): string {
  return line
    .split(ESCAPE_CODE)
    .filter((_, index) => index % 2 === 0)
    .join('');
}

function escapeXml(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
