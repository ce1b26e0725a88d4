import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { createDataDir } from '../helpers/database/test-database.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';

const JWT_SECRET = 'j'.repeat(32);
const FIAT_RATE_URL = 'https://rates.example/key-of-the-operator';

let dataDir: string;
let file: string;

beforeEach(async () => {
  const created = await createDataDir();
  onTestFinished(created.remove);
  dataDir = created.dataDir;
  file = path.join(dataDir, 'nutpost.env');
});

it('every command uses the settings file, and config prints the value and the source of each setting', async () => {
  const lines = [
    '# A comment',
    `DATA_DIR=${dataDir}`,
    '',
    'PORT=4000\r',
    `JWT_SECRET=${JWT_SECRET}`,
    'SITE_NAME="Our server"',
    'SITE_ACCENT_COLOR=#123456',
    'FIAT_CURRENCIES=EUR',
    `FIAT_RATE_URL=${FIAT_RATE_URL}`,
    'LIMIT_REQUESTS=1',
    'ZAP_RELAYS=wss://relay.example?token=key-of-the-operator,wss://other.example',
  ];
  fs.writeFileSync(file, lines.join('\n'));
  const env = { NUTPOST_ENV: file, PORT: '5000', LIMIT_REQUESTS: '' };
  for (const args of [['migrate'], ['backup', path.join(dataDir, 'backup')]]) {
    expect(await runNutpostCommand(args, env)).toMatchObject({ code: 0, stderr: '' });
  }
  const { secrets } = JSON.parse(fs.readFileSync(path.join(dataDir, 'backup.json'), 'utf8'));
  expect(fs.existsSync(path.join(dataDir, 'nutpost.sqlite'))).toBe(true);

  const { code, stdout } = await runNutpostCommand(['config', '--json'], env);
  expect(code).toBe(0);
  const report = JSON.parse(stdout);
  expect(report.file).toBe(file);
  expect(report.settings).toEqual(
    expect.arrayContaining([
      { name: 'DATA_DIR', source: 'file', value: dataDir },
      { name: 'PORT', source: 'environment', value: '5000' },
      { name: 'JWT_SECRET', source: 'file', fingerprint: secrets.JWT_SECRET },
      { name: 'SITE_NAME', source: 'file', value: 'Our server' },
      { name: 'SITE_ACCENT_COLOR', source: 'file', value: '#123456' },
      // An empty variable removes a setting of the file.
      { name: 'LIMIT_REQUESTS', source: 'default', value: '6000' },
      { name: 'LOG_LEVEL', source: 'default', value: 'info' },
      { name: 'ZAP_SECRET_KEY', source: 'default' },
      {
        name: 'ZAP_RELAYS',
        source: 'file',
        value: 'wss://relay.example?[redacted],wss://other.example',
      },
      {
        name: 'FIAT_RATE_URL',
        source: 'file',
        value: 'https://rates.example',
        fingerprint: expect.stringMatching(/^[\da-f]{16}$/),
      },
    ]),
  );
  const { stdout: text } = await runNutpostCommand(['config'], env);
  expect(text).toContain(`Settings file: ${file}\n`);
  expect(text).toMatch(/^PORT +environment +5000$/m);
  expect(`${stdout}${text}`).not.toMatch(/jjjj|key-of-the-operator/);
});

it('shows no part of the URL of a Unix socket', async () => {
  const DATABASE_URL = 'postgres://nutpost:p%40ss@/nutpost?host=/run/postgresql';
  const { code, stdout } = await runNutpostCommand(['config'], { DATABASE_URL, JWT_SECRET });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^DATABASE_URL +environment +\(fingerprint [\da-f]{16}\)$/m);
});

it('shows the fingerprints of generated secrets', async () => {
  fs.writeFileSync(path.join(dataDir, 'jwt-secret'), JWT_SECRET);
  const readFingerprint = async (env: Record<string, string>) => {
    const { stdout } = await runNutpostCommand(['config', '--json'], env);
    return JSON.parse(stdout).settings.find(({ name }: { name: string }) => name === 'JWT_SECRET');
  };
  const generated = await readFingerprint({ DATA_DIR: dataDir });
  const { fingerprint } = await readFingerprint({ JWT_SECRET });
  expect(generated).toEqual({ name: 'JWT_SECRET', source: 'generated', fingerprint });
});

it.each([
  ['PORT=3000\nsecret text\n', 'line 2 of '],
  [null, 'cannot be read'],
])('rejects the file %j, without its text', async (text, message) => {
  if (text !== null) {
    fs.writeFileSync(file, text);
  }
  const { code, stderr } = await runNutpostCommand(['config'], { NUTPOST_ENV: file });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(message) });
  expect(stderr).not.toContain('secret text');
});
