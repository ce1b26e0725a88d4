import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ProcessIo } from '../../src/operator/command-io.ts';

it.each([
  [{ isTTY: true }, '0\n10\n20\n'],
  [{}, '10\n20\n'],
])('writes a progress line every ten seconds to %j', (errorStream, lines) => {
  const { terminal, clock, stderr } = open(errorStream);
  for (let second = 0; second <= 25; second += 1) {
    terminal.reportProgress(`${second}`);
    clock.nowMs += 1_000;
  }
  expect(said(stderr)).toBe(lines);
});

it('waits for a slow reader', async () => {
  const { terminal, stdout } = open({});
  let isWritten = false;
  const writing = terminal.write('x'.repeat(stdout.writableHighWaterMark * 3)).then(() => {
    isWritten = true;
  });
  await setImmediate();
  expect(isWritten).toBe(false);
  stdout.resume();
  await writing;
});

it('throws when standard output is closed', async () => {
  const { terminal, stdout } = open({});
  const writing = terminal.write('x'.repeat(stdout.writableHighWaterMark * 3));
  stdout.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  const sentence = 'Standard output was closed before the command finished.';
  await expect(writing).rejects.toThrow(sentence);
  await expect(terminal.write('more')).rejects.toThrow(sentence);
  expect(terminal.signal.aborted).toBe(true);
});

it('has no input if standard input is a terminal', () => {
  expect(open({}, { isTTY: true }).terminal.stdin).toBeNull();
  expect(open({}).terminal.stdin).not.toBeNull();
});

function open(errorStream: object, inputStream: object = {}) {
  const stdout = new PassThrough();
  const stderr = Object.assign(new PassThrough({ encoding: 'utf8' }), errorStream);
  const stdin = Object.assign(new PassThrough(), inputStream);
  const clock = { nowMs: 5 };
  const streams = { stdin, stdout, stderr } as unknown as NodeJS.Process;
  return { terminal: new ProcessIo(streams, () => clock.nowMs), clock, stdout, stderr };
}

function said(stream: PassThrough): string {
  return stream.read() ?? '';
}
