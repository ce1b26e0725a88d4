import { describe, expect, it } from 'vitest';
import { readRelayWord } from '../../src/domain/relay-word.ts';

describe('what a relay says', () => {
  it.each([
    ['duplicate: already have this event', 'duplicate'],
    ['blocked: you are banned from posting here', 'blocked'],
    ['invalid: event creation date is too far off', 'invalid'],
    ['pow: difficulty 25>=24', 'pow'],
    ['restricted: not allowed to write.', 'restricted'],
    ['mute: no one was listening', 'mute'],
    ['auth-required: we only serve registered users', 'auth_required'],
    ['rate-limited: slow down there chief', 'rate_limited'],
    ['error: could not connect to the database', 'error'],
  ])('is understood by its prefix: %s', (message, meaning) => {
    expect(readRelayWord(message)).toEqual({ meaning, word: message });
  });

  it.each([
    ['BLOCKED: go away', 'blocked'],
    ['Blocked:go away', 'blocked'],
    ['duplicate:', 'duplicate'],
    ['duplicate', 'duplicate'],
    ['  invalid : signature', 'invalid'],
    ['rate limited: too fast', 'rate_limited'],
    ['Auth_Required: who are you?', 'auth_required'],
  ])('is understood where it is written carelessly: %s', (message, meaning) => {
    expect(readRelayWord(message).meaning).toBe(meaning);
  });

  it.each([
    '',
    ':',
    'no',
    'already have this event',
    'this is a duplicate: of what you sent',
    'blocked by the operator',
    'unblocked: welcome',
    'постой: duplicate:',
    'constructor: __proto__',
  ])('is another thing where the prefix is not one of those: "%s"', (message) => {
    expect(readRelayWord(message).meaning).toBe('other');
  });

  it('is shown on one printable, short line', () => {
    const { meaning, word } = readRelayWord(
      `blocked: a\u0000\u001b[31m\nb\u202ec${'x'.repeat(9_000)}`,
    );
    expect(meaning).toBe('blocked');
    expect(word).toMatch(/^blocked: a\[31m bcx+$/);
    expect(word.length).toBeLessThanOrEqual(200);
  });

  it('takes no time to read, however it is made', () => {
    const begunAt = performance.now();
    readRelayWord(' '.repeat(250_000));
    readRelayWord(`a${' '.repeat(250_000)}b`);
    readRelayWord('a'.repeat(250_000));
    readRelayWord(`${'a'.repeat(125_000)} ${'b'.repeat(125_000)}`);
    expect(performance.now() - begunAt).toBeLessThan(1_000);
  });
});
