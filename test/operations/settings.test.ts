import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { createDataDir } from '../helpers/database/test-database.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';

let dataDir: string;
let file: string;

beforeEach(async () => {
  const created = await createDataDir();
  onTestFinished(created.remove);
  dataDir = created.dataDir;
  file = path.join(dataDir, 'nutpost.env');
});

it('is read by every command, and a variable overrides a line of it', async () => {
  const lines = [
    '# A comment',
    `DATA_DIR=${dataDir}`,
    '',
    'JWT_SECRET=too short\r',
    'SITE_NAME="Our server"',
    'SITE_ACCENT_COLOR=#123456',
    'LIMIT_REQUESTS=many',
  ];
  fs.writeFileSync(file, lines.join('\n'));
  expect(await runNutpostCommand(['migrate'], { NUTPOST_ENV: file })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^JWT_SECRET .*\nLIMIT_REQUESTS .*\n$/),
  });
  // An empty variable removes a setting of the file.
  const env = { NUTPOST_ENV: file, JWT_SECRET: 'j'.repeat(32), LIMIT_REQUESTS: '' };
  for (const args of [['migrate'], ['backup', path.join(dataDir, 'backup')]]) {
    expect(await runNutpostCommand(args, env)).toMatchObject({ code: 0, stderr: '' });
  }
  expect(fs.existsSync(path.join(dataDir, 'nutpost.sqlite'))).toBe(true);
});

it.each([
  ['PORT=3000\nsecret text\n', 'line 2 of '],
  [null, 'cannot be read'],
])('rejects the file %j, without its text', async (text, message) => {
  if (text !== null) {
    fs.writeFileSync(file, text);
  }
  const { code, stderr } = await runNutpostCommand(['migrate'], { NUTPOST_ENV: file });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(message) });
  expect(stderr).not.toContain('secret text');
});
