import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ProcessIo } from '../../../src/operator/process-io.ts';

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

function createIo() {
  const stdout = new PassThrough();
  const streams = { stdout, stderr: new PassThrough() } as unknown as NodeJS.Process;
  return { io: new ProcessIo(streams), stdout };
}
