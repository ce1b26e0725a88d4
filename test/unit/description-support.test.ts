import { describe, expect, it } from 'vitest';
import { DescriptionSupport } from '../../src/mint/description-support.ts';

const MINT = 'https://mint.example';
const MINUTE = 60_000;

describe('a rejected description', () => {
  it('stands for longer ones, of the same mint, and not for shorter ones or none', () => {
    const { support } = createSupport();
    expect(support.rejects(MINT, 'thanks a lot')).toBe(false);
    support.noteRejected(MINT, 'thanks a lot');
    expect(support.rejects(MINT, 'thanks a lot')).toBe(true);
    expect(support.rejects(MINT, 'thank you very much')).toBe(true);
    expect(support.rejects(MINT, 'thanks')).toBe(false);
    expect(support.rejects(MINT, '')).toBe(false);
    expect(support.rejects('https://other.example', 'thanks a lot')).toBe(false);
  });

  it('is measured in bytes', () => {
    const { support } = createSupport();
    support.noteRejected(MINT, 'áéíóú');
    expect(support.rejects(MINT, 'aeiouaeio')).toBe(false);
    expect(support.rejects(MINT, 'aeiouaeiou')).toBe(true);
  });

  it('is remembered for five minutes', () => {
    const world = createSupport();
    world.support.noteRejected(MINT, 'thanks');
    world.nowMs += 5 * MINUTE - 1;
    expect(world.support.rejects(MINT, 'thanks')).toBe(true);
    world.nowMs += 1;
    expect(world.support.rejects(MINT, 'thanks')).toBe(false);
  });

  it('is news unless it, or a shorter one, is known to be rejected', () => {
    const { support } = createSupport();
    expect(support.noteRejected(MINT, 'thanks')).toBe(true);
    expect(support.noteRejected(MINT, 'thanks')).toBe(false);
    expect(support.noteRejected(MINT, 'thanks a lot')).toBe(false);
    expect(support.noteRejected(MINT, 'hi')).toBe(true);
    expect(support.rejects(MINT, 'hey')).toBe(true);
  });
});

describe('an accepted description', () => {
  it('clears one as long or shorter of suspicion, for five minutes', () => {
    const world = createSupport();
    const { support } = world;
    support.noteAccepted(MINT, 'thanks');
    expect(support.noteRejected(MINT, 'tea')).toBe(false);
    expect(support.noteRejected(MINT, 'coffee')).toBe(false);
    expect(support.rejects(MINT, 'coffee')).toBe(false);
    world.nowMs += 5 * MINUTE;
    expect(support.noteRejected(MINT, 'tea')).toBe(true);
  });

  it('does not clear a longer one', () => {
    const { support } = createSupport();
    support.noteAccepted(MINT, 'thanks');
    support.noteAccepted(MINT, 'tea');
    expect(support.noteRejected(MINT, 'coffee')).toBe(false);
    expect(support.noteRejected(MINT, 'thanks a lot')).toBe(true);
    expect(support.rejects(MINT, 'thanks')).toBe(false);
  });
});

function createSupport() {
  const clock = { nowMs: 0 };
  return Object.assign(clock, { support: new DescriptionSupport(() => clock.nowMs) });
}
