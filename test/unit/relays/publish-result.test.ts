import { describe, expect, it } from 'vitest';
import { parseOkMessage } from '../../../src/relays/publish-result.ts';

describe('parseOkMessage', () => {
  it.each([
    ['blocked: you are banned from posting here', 'rejected'],
    ['invalid: event creation date is too far off', 'rejected'],
    ['pow: difficulty 25>=24', 'rejected'],
    ['auth-required: we only serve registered users', 'auth_required'],
    ['rate-limited: slow down there chief', 'rate_limited'],
    ['rate limited: too fast', 'rate_limited'],
    ['Auth_Required: who are you?', 'auth_required'],
    ['duplicate: already have this event', 'accepted'],
    ['DUPLICATE', 'accepted'],
    ['', 'error'],
  ])('classifies the rejection "%s" as %s', (message, outcome) => {
    expect(parseOkMessage(false, message)).toEqual({ outcome, message });
  });

  it('returns at most 200 printable characters of the message on one line', () => {
    const message = `blocked: a\u0000\u001b[31m\nb\u202ec${'x'.repeat(9_000)}`;
    const result = parseOkMessage(false, message);
    expect(result.message).toMatch(/^blocked: a\[31m bcx+$/);
    expect(result.message.length).toBeLessThanOrEqual(200);
  });

  it.each([
    ['only spaces', ' '.repeat(250_000)],
    ['spaces between letters', `a${' '.repeat(250_000)}b`],
  ])('takes less than a second of processor time for 250,000 characters with %s', (_, message) => {
    const before = process.cpuUsage();
    parseOkMessage(false, message);
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  });
});
