import { execFile as execFileWithCallback } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { shutDown } from '../../src/shutdown.ts';

const execFile = promisify(execFileWithCallback);

it('runs the remaining stages, and logs the stage, if a stage throws, rejects or hangs', async () => {
  const stopped: string[] = [];
  const warnings: object[] = [];
  const stage = (name: string, stop: () => unknown = () => undefined, deadlineMs = 60_000) => {
    const recordAndStop = () => {
      stopped.push(name);
      return stop();
    };
    return { [name]: [deadlineMs, recordAndStop] as const };
  };
  const failure = new Error('broken');
  await shutDown(
    { warn: (line: object) => warnings.push(line) },
    {
      ...stage('first'),
      ...stage('throws', () => {
        throw failure;
      }),
      ...stage('rejects', () => Promise.reject(failure)),
      ...stage('hangs', () => Promise.withResolvers<void>().promise, 1),
      ...stage('database'),
    },
  );
  expect(stopped).toEqual(['first', 'throws', 'rejects', 'hangs', 'database']);
  expect(warnings).toEqual([
    { event: 'shutdown_stage_failed', stage: 'throws', err: failure },
    { event: 'shutdown_stage_failed', stage: 'rejects', err: failure },
    { event: 'shutdown_stage_failed', stage: 'hangs', err: expect.any(Error) },
  ]);
});

it('runs the remaining stages even if nothing else keeps the process running', async () => {
  const module = new URL('../../src/shutdown.ts', import.meta.url).href;
  const script = `
    import { shutDown } from '${module}';
    const hangs = [1, () => new Promise(() => undefined)];
    const last = [1, () => console.log('closed')];
    await shutDown({ warn: () => undefined }, { hangs, last });
  `;
  const { stdout } = await execFile(process.execPath, ['--input-type=module', '--eval', script]);
  expect(stdout).toBe('closed\n');
});
