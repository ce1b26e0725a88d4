import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadBranding } from '../../../../src/http/web/branding.ts';

const SETTINGS = { siteName: 'Nuts', logoFile: null, accentColor: '#a34b0c', links: [] };

const INVISIBLE = 'transparent';
const VISIBLE = 'var(--field-line)';

it.each([
  ['#a34b0c', '#ffffff', INVISIBLE, VISIBLE],
  ['#777777', '#000000', INVISIBLE, INVISIBLE],
  ['#757575', '#ffffff', INVISIBLE, INVISIBLE],
  ['#fdf6e3', '#000000', VISIBLE, INVISIBLE],
  ['#1a1a1a', '#ffffff', INVISIBLE, VISIBLE],
])(
  'buttons in %s have text in %s, and a border if they would look like what is behind them',
  async (accentColor, textColor, lightBorder, darkBorder) => {
    const { styleRules } = await loadBranding({ ...SETTINGS, accentColor });
    expect(styleRules).toContain(`:root{--accent:${accentColor};--on-accent:${textColor}}`);
    const borders = [...styleRules.matchAll(/--accent-border:([^}]+)/g)].map(([, color]) => color);
    expect(borders).toEqual([lightBorder, darkBorder]);
  },
);

describe('the logo', () => {
  it.each([
    ['acorn.svg', 'logo.svg', undefined],
    ['acorn.PNG', 'logo.png', 'logo.png'],
  ])('%s is also every icon, as far as its format is suitable', async (file, name, png) => {
    const logoFile = await writeLogo(file, 100_000);
    const { logo, icons } = await loadBranding({ ...SETTINGS, logoFile });
    expect([logo.name, icons.favicon.name]).toEqual([name, name]);
    expect(icons.manifestIcons).toEqual([logo]);
    expect([icons.appleTouchIcon?.name, icons.previewImage?.name]).toEqual([png, png]);
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
