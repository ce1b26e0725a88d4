import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const HOLDER = fileURLToPath(import.meta.resolve('../../bench/processes/postgres.ts'));
const ATTACH = import.meta.resolve('../../bench/harness/attach.js');

it("ends a benchmark's server without a word where the benchmark is interrupted", async () => {
  const holder = spawn(process.execPath, ['--import', ATTACH, HOLDER], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const errors = text(holder.stderr as NonNullable<typeof holder.stderr>);
  await once(holder.stdout as NonNullable<typeof holder.stdout>, 'data');

  // As Ctrl-C does: both hear of it, and the benchmark lets go of its processes.
  holder.kill('SIGINT');
  holder.disconnect();

  expect(await once(holder, 'exit')).toEqual([0, null]);
  expect(await errors).toBe('');
});
