import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Narrator } from '../../src/demo/narrator.ts';

test('a step is told with what was asked, how long it took and what came', async () => {
  const { narrator, told } = openNarrator();
  const came = await narrator.step({ ...QUESTION, does: async () => 42 });
  expect(came).toBe(42);
  expect(told()).toMatch(/^ {2}Question {3}what is it {25}✓ +\S+ m?s {2}42\n$/);
});

test('a step that never ends fails at its deadline', async () => {
  const { narrator, told } = openNarrator({ stepDeadlineMs: 2 });
  const step = narrator.step({ ...QUESTION, does: () => new Promise<number>(() => {}) });
  await expect(step).rejects.toThrow(
    'The demo failed at "Question" (what is it): nothing came within 2 ms',
  );
  expect(told()).toMatch(/✗ +\S+ m?s\n$/);
});

test('a step that takes its time has a deadline of its own', async () => {
  const { narrator } = openNarrator({ stepDeadlineMs: 2 });
  const slow = { ...QUESTION, deadlineMs: 120_000, does: () => delay(20, 42) };
  expect(await narrator.step(slow)).toBe(42);
});

test('an interrupted step is broken off', async () => {
  const interruption = new AbortController();
  const { narrator } = openNarrator({ interruption: interruption.signal });
  const step = narrator.step({ ...QUESTION, does: () => new Promise<number>(() => {}) });
  interruption.abort();
  await expect(step).rejects.toThrow('The demo was interrupted at "Question" (what is it)');
});

test('an error is told together with what caused it', async () => {
  const { narrator } = openNarrator();
  const cause = new Error('connect ECONNREFUSED 127.0.0.1:3000');
  const does = (): number => {
    throw new TypeError('fetch failed', { cause });
  };
  await expect(narrator.step({ ...QUESTION, does })).rejects.toThrow(
    ': fetch failed: connect ECONNREFUSED 127.0.0.1:3000',
  );
});

const QUESTION = { name: 'Question', asks: 'what is it', tells: String };

function openNarrator({
  stepDeadlineMs = 10_000,
  interruption = new AbortController().signal,
} = {}) {
  const output = new PassThrough({ encoding: 'utf8' });
  const told = (): string => output.read() ?? '';
  return { narrator: new Narrator({ output, stepDeadlineMs, interruption }), told };
}
