import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadBranding } from '../../../../src/http/web/branding.ts';

const SETTINGS = { siteName: 'Nuts', logoFile: null, accentColor: '#a34b0c' };

it.each([
  ['#a34b0c', '#fff'],
  ['#ffffff', '#000'],
  ['#777777', '#000'],
  ['#757575', '#fff'],
])('the style sheet of the brand has text on %s in %s', async (accentColor, textColor) => {
  const { styleSheet } = await loadBranding({ ...SETTINGS, accentColor });
  expect(styleSheet.content.toString()).toBe(
    `:root{--accent:${accentColor};--on-accent:${textColor}}`,
  );
});

describe('the logo', () => {
  it.each([
    ['logo.svg', 'image/svg+xml'],
    ['logo.PNG', 'image/png'],
  ])('can be the file %s', async (name, contentType) => {
    const logoFile = await writeLogo(name, 100_000);
    expect((await loadBranding({ ...SETTINGS, logoFile })).logo.contentType).toBe(contentType);
  });

  it('must be an image, exist and be small', async () => {
    const tooLarge = await writeLogo('logo.svg', 100_001);
    await expect(loadBranding({ ...SETTINGS, logoFile: tooLarge })).rejects.toThrow(
      'SITE_LOGO must have at most 100000 bytes (got 100001)',
    );
    await expect(loadBranding({ ...SETTINGS, logoFile: '/logo.exe' })).rejects.toThrow(
      "SITE_LOGO must be a file whose name ends with .svg, .png, .webp (got '/logo.exe')",
    );
    await expect(loadBranding({ ...SETTINGS, logoFile: '/no/logo.svg' })).rejects.toThrow(
      'SITE_LOGO cannot be read: ENOENT',
    );
  });
});

async function writeLogo(name: string, size: number): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'nutpost-logo-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const file = path.join(directory, name);
  await writeFile(file, 'x'.repeat(size));
  return file;
}
