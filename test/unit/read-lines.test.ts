import fc from 'fast-check';
import { expect, it } from 'vitest';
import { readLines } from '../../src/operator/archive/archive-commands.ts';

it('returns the lines of a stream, however it is chunked', async () => {
  const line = fc.string({ unit: fc.constantFrom('a', 'é', '🐌', '\r', ' ') });
  await fc.assert(
    fc.asyncProperty(fc.array(line), fc.integer({ min: 1, max: 7 }), async (texts, size) => {
      const ended = Buffer.from(texts.map((text) => `${text}\n`).join(''));
      expect(await linesOf(cut(ended, size))).toEqual(texts);
    }),
  );
});

it('returns a last line without a line break', async () => {
  expect(await linesOf([Buffer.from('one\n\ntw'), Buffer.from('o')])).toEqual(['one', '', 'two']);
  expect(await linesOf([])).toEqual([]);
});

it('rejects invalid UTF-8 and overlong lines with the line number', async () => {
  await expect(linesOf([Buffer.from('one\n'), Buffer.from([0xff, 0x0a])])).rejects.toThrow(
    'Line 2 or a later one is not UTF-8.',
  );
  const megabyte = Buffer.alloc(1_048_576, 'x');
  const endless = Array.from({ length: 9 }, () => megabyte);
  await expect(linesOf(endless)).rejects.toThrow('Line 1 is longer than 8388608 characters.');
});

function cut(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  );
}

async function linesOf(chunks: readonly Buffer[]): Promise<string[]> {
  const stream = (async function* () {
    yield* chunks;
  })();
  return await Array.fromAsync(readLines(stream));
}
