import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ProcessIo } from '../../../src/operator/command-io.ts';

it.each([
  ['a terminal immediately, then', { isTTY: true }, '0\n10\n20\n'],
  ['a file', {}, '10\n20\n'],
])('writes a progress line to %s every ten seconds', (_case, stderrProperties, lines) => {
  const { io, clock, stderr } = createIo({ stderrProperties });
  for (let second = 0; second <= 25; second += 1) {
    io.reportProgress(`${second}`);
    clock.nowMs += 1_000;
  }
  expect(readOutput(stderr)).toBe(lines);
});

it('waits until a slow reader has read standard output', async () => {
  const { io, stdout } = createIo();
  let hasWritten = false;
  const writing = io.write('x'.repeat(stdout.writableHighWaterMark * 3)).then(() => {
    hasWritten = true;
  });
  await setImmediate();
  expect(hasWritten).toBe(false);
  stdout.resume();
  await writing;
});

it.each([
  ['EPIPE', 'Standard output was closed before the command finished.'],
  ['ENOSPC', 'Standard output could not be written (write ENOSPC) before the command finished.'],
])('throws after a write fails with %s', async (code, message) => {
  const { io, stdout } = createIo();
  const writing = io.write('x'.repeat(stdout.writableHighWaterMark * 3));
  stdout.destroy(Object.assign(new Error(`write ${code}`), { code }));
  await expect(writing).rejects.toThrow(message);
  await expect(io.write('more')).rejects.toThrow(message);
  expect(io.signal.aborted).toBe(true);
});

it('returns null as input if standard input is a terminal', () => {
  expect(createIo({ stdinProperties: { isTTY: true } }).io.stdin).toBeNull();
  expect(createIo().io.stdin).not.toBeNull();
});

function createIo({ stdinProperties = {}, stderrProperties = {} } = {}) {
  const stdout = new PassThrough();
  const stderr = Object.assign(new PassThrough({ encoding: 'utf8' }), stderrProperties);
  const stdin = Object.assign(new PassThrough(), stdinProperties);
  const clock = { nowMs: 5 };
  const streams = { stdin, stdout, stderr } as unknown as NodeJS.Process;
  return { io: new ProcessIo(streams, () => clock.nowMs), clock, stdout, stderr };
}

function readOutput(stream: PassThrough): string {
  return stream.read() ?? '';
}
