import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { NodeProcess } from '../../bench/harness/node-process.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(await realpath(tmpdir()), 'nutpost-test-'));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

it('puts what a benchmark needs for a while where TMPDIR says, and passes nothing else on', async () => {
  vi.stubEnv('TMPDIR', folder);
  vi.stubEnv('DATABASE_URL', 'postgres://mine.example');
  const program = path.join(folder, 'program.js');
  const answer = '[require("node:os").tmpdir(), process.env.DATABASE_URL ?? null]';
  await writeFile(program, `process.stdout.write(JSON.stringify(${answer}) + "\\n");`);

  await using told = new NodeProcess('a program', pathToFileURL(program).href);

  expect(await told.next()).toEqual([folder, null]);
});
