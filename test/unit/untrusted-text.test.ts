import { describe, expect, it } from 'vitest';
import { tryParseJson } from '../../src/untrusted-text.ts';

describe('tryParseJson', () => {
  it.each([
    ['30,000 numbers', Array(30_000).fill(0)],
    ['one long text', 'a'.repeat(4_000_000)],
    ['1,000 quotes of 15 fields', Array(1_000).fill(createObject(15))],
  ])('parses %s', (_name, value) => {
    expect(tryParseJson(JSON.stringify(value))).toEqual(value);
  });

  it.each([
    ['40,000 numbers', Array(40_000).fill(0)],
    ['25,000 objects', Array(25_000).fill({})],
  ])('rejects %s', (_name, value) => {
    expect(tryParseJson(JSON.stringify(value))).toBeUndefined();
  });

  it('replaces lone surrogates at any depth, and keeps pairs', () => {
    const json = String.raw`["\uD83e", {"a": ["\ud83e\udd5c \udd5c!", "\\ud83e", 1, null]}]`;
    expect(tryParseJson(json)).toEqual(['\ufffd', { a: ['🥜 \ufffd!', '\\ud83e', 1, null] }]);
  });

  it('rejects nested arrays and invalid JSON', () => {
    expect(tryParseJson('['.repeat(40_000) + ']'.repeat(40_000))).toBeUndefined();
    expect(tryParseJson('{')).toBeUndefined();
  });
});

function createObject(fields: number): object {
  return Object.fromEntries(Array.from({ length: fields }, (_, index) => [`field${index}`, 0]));
}
