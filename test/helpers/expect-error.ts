import { expect } from 'vitest';
import type { ApiAnswer } from './wallet.ts';

/** Expects a JSON error of this shape alone, readable by web pages, without internals. */
export function expectError(
  { status, headers, body }: ApiAnswer,
  expected: number,
  error: object,
): void {
  expect({ status, body }).toEqual({ status: expected, body: error });
  expect(headers.get('content-type')).toMatch(/^application\/json/);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(JSON.stringify(body)).not.toMatch(
    /node_modules|\.ts:|\.js:| at |select |insert |FST_|<html/i,
  );
}
