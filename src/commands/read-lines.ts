import { OperatorError } from '../domain/errors.ts';

/** The longest line is a journal's row with its plans of outputs: kilobytes. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;

const NEWLINE = 0x0a;

/**
 * The lines of a stream of UTF-8, each without its end, and the last one whether it is ended or not. No
 * more than a line and a chunk is in memory.
 *
 * @throws OperatorError that names the line which is too long, or not UTF-8
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let number = 0;
  let parts: Uint8Array[] = [];
  let size = 0;
  const take = (part: Uint8Array) => {
    parts.push(part);
    size += part.length;
    if (size > MAX_LINE_BYTES) {
      throw new OperatorError(`Line ${number + 1}: is longer than ${MAX_LINE_BYTES} bytes.`);
    }
  };
  const line = () => {
    number += 1;
    const text = decode(parts, number);
    parts = [];
    size = 0;
    return text;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      take(chunk.subarray(start, end));
      yield line();
      start = end + 1;
    }
    take(chunk.subarray(start));
  }
  if (size > 0) {
    yield line();
  }
}

function decode(parts: readonly Uint8Array[], number: number): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts));
  } catch {
    throw new OperatorError(`Line ${number}: is not UTF-8.`);
  }
}
