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

function createIo() {
  const stdout = new PassThrough();
  const streams = { stdout, stderr: new PassThrough() } as unknown as NodeJS.Process;
  return { io: new ProcessIo(streams), stdout };
}
