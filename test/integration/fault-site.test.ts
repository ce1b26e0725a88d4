import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { Site } from '../faults/site.ts';

it('a run that failed while a process was away leaves none behind that is started again', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-site-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const mint = await TestMint.start();
  onTestFinished(() => mint.close());
  const site = await Site.open({
    database: 'embedded',
    folder,
    defaultMintUrl: mint.url,
    onDeath: (description) => expect.fail(description),
  });
  const [victim] = site.processes as [Site['processes'][number]];
  await victim.kill();

  await site[Symbol.asyncDispose]();

  expect(() => victim.start()).toThrow('retired');
  expect(victim.pid).toBeNull();
});
