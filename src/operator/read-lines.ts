import { OperatorError } from '../errors.ts';

/** The longest line is a row of a journal with its outputs: kilobytes. */
const MAX_LINE_LENGTH = 8 * 1024 * 1024;

/**
 * Yields the lines of a stream of UTF-8, each without its end. Holds one line and one chunk in memory.
 *
 * @throws OperatorError if a line is too long, or not UTF-8
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let lineNumber = 1;
  let rest = '';
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new OperatorError(`Line ${lineNumber} or a later one: is not UTF-8.`);
    }
  };
  for await (const chunk of chunks) {
    const lines = (rest + decode(chunk)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      yield line;
      lineNumber += 1;
    }
    if (rest.length > MAX_LINE_LENGTH) {
      throw new OperatorError(`Line ${lineNumber}: is longer than ${MAX_LINE_LENGTH} characters.`);
    }
  }
  rest += decode();
  if (rest !== '') {
    yield rest;
  }
}
