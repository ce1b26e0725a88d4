import fc from 'fast-check';
import { expect, it } from 'vitest';
import { readLines } from '../../../src/operator/archive/archive-commands.ts';

it('returns the lines of a stream for any chunk size', async () => {
  const anyLine = fc.string({ unit: fc.constantFrom('a', 'é', '🐌', '\r', ' ') });
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyLine),
      fc.integer({ min: 1, max: 7 }),
      async (lines, chunkSizeBytes) => {
        const content = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        expect(await collectLines(splitIntoChunks(content, chunkSizeBytes))).toEqual(lines);
      },
    ),
  );
});

it('returns a last line without a line break', async () => {
  expect(await collectLines([Buffer.from('one\n\ntw'), Buffer.from('o')])).toEqual([
    'one',
    '',
    'two',
  ]);
  expect(await collectLines([])).toEqual([]);
});

it('rejects invalid UTF-8 and overlong lines with the line number', async () => {
  await expect(collectLines([Buffer.from('one\n'), Buffer.from([0xff, 0x0a])])).rejects.toThrow(
    'Line 2 or a later one is not UTF-8.',
  );
  const megabyte = Buffer.alloc(1_048_576, 'x');
  const chunksWithoutLineBreak = Array.from({ length: 9 }, () => megabyte);
  await expect(collectLines(chunksWithoutLineBreak)).rejects.toThrow(
    'Line 1 is longer than 8388608 characters.',
  );
});

function splitIntoChunks(bytes: Buffer, chunkSizeBytes: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / chunkSizeBytes) }, (_, index) =>
    bytes.subarray(index * chunkSizeBytes, (index + 1) * chunkSizeBytes),
  );
}

async function collectLines(chunks: readonly Buffer[]): Promise<string[]> {
  const stream = (async function* () {
    yield* chunks;
  })();
  return await Array.fromAsync(readLines(stream));
}
