import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { crc32, deflate, gunzipSync } from 'node:zlib';
import { encodeQR } from 'qr';

/** In pixels. Messengers and social networks recommend this format. */
const WIDTH = 1200;
const HEIGHT = 630;

/** The glyphs in `images/glyphs.gz`, in this order. Chromium rendered them in bold DejaVu Sans Mono of 43 pixels. */
const GLYPHS = 'abcdefghijklmnopqrstuvwxyz0123456789@.-_+:…[]';
const GLYPH_WIDTH = 26;
const GLYPH_HEIGHT = 52;

/** What fits beside the QR code: 12 lines of 20 glyphs. The rest of a longer address is left out. */
const MAX_LINES = 12;
const LINE = /.{1,20}/g;

/** A byte, the grey, per pixel. Each row starts with the byte that PNG expects there: 0, no filter. */
const ROW_BYTES = WIDTH + 1;

/** Draws a QR code, and the address beside it, for previews of links. Returns a PNG file. */
export async function renderPreviewImage(qrText: string, address: string): Promise<Buffer> {
  const pixels = Buffer.alloc(ROW_BYTES * HEIGHT, 255);
  for (let start = 0; start < pixels.length; start += ROW_BYTES) {
    pixels[start] = 0;
  }
  const modules = encodeQR(qrText, 'raw', { ecc: 'low', border: 4 });
  const scale = Math.floor(HEIGHT / modules.length);
  const [dark, light] = [Buffer.alloc(scale, 0), Buffer.alloc(scale, 255)];
  const code = modules.map((row) => Buffer.concat(row.map((isDark) => (isDark ? dark : light))));
  draw(pixels, code, { left: 0, top: 0, rowHeight: scale });

  const parts = address.split(/(?=@)/);
  const lines = parts.flatMap((part) => part.match(LINE) ?? []).slice(0, MAX_LINES);
  const glyphs = await loadGlyphs();
  for (const [row, line] of lines.entries()) {
    const top = HEIGHT / 2 + (row - lines.length / 2) * GLYPH_HEIGHT;
    for (const [column, character] of [...line].entries()) {
      const left = HEIGHT + column * GLYPH_WIDTH;
      draw(pixels, glyphs.get(character) ?? [], { left, top, rowHeight: 1 });
    }
  }
  return encodePng(pixels);
}

/** Copies rows of greys to a place, each of them `rowHeight` times. */
function draw(
  pixels: Buffer,
  rows: readonly Buffer[],
  { left, top, rowHeight }: Record<'left' | 'top' | 'rowHeight', number>,
): void {
  for (const [index, row] of rows.entries()) {
    for (let y = top + index * rowHeight; y < top + (index + 1) * rowHeight; y += 1) {
      row.copy(pixels, y * ROW_BYTES + 1 + left);
    }
  }
}

let glyphsLoaded: Promise<Map<string, Buffer[]>> | undefined;

/** Returns the rows of each glyph. */
function loadGlyphs(): Promise<Map<string, Buffer[]>> {
  glyphsLoaded ??= readFile(new URL('images/glyphs.gz', import.meta.url)).then((file) => {
    const greys = gunzipSync(file);
    const rows = Array.from({ length: GLYPHS.length * GLYPH_HEIGHT }, (_row, index) =>
      greys.subarray(index * GLYPH_WIDTH, (index + 1) * GLYPH_WIDTH),
    );
    return new Map(
      [...GLYPHS].map((glyph, index) => [
        glyph,
        rows.slice(index * GLYPH_HEIGHT, (index + 1) * GLYPH_HEIGHT),
      ]),
    );
  });
  return glyphsLoaded;
}

/** Encodes greys (ISO 15948). Libraries block the event loop for up to 50 ms; `deflate` uses another thread. */
async function encodePng(pixels: Buffer): Promise<Buffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(WIDTH, 0);
  header.writeUInt32BE(HEIGHT, 4);
  // Bits per pixel.
  header[8] = 8;
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    encodeChunk('IHDR', header),
    encodeChunk('IDAT', await promisify(deflate)(pixels)),
    encodeChunk('IEND', Buffer.alloc(0)),
  ]);
}

function encodeChunk(type: string, data: Buffer): Buffer {
  const content = Buffer.concat([Buffer.from(type), data]);
  const chunk = Buffer.alloc(content.length + 8);
  chunk.writeUInt32BE(data.length, 0);
  content.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(content), content.length + 4);
  return chunk;
}
