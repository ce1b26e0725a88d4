import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { OperatorError } from '../../errors.ts';
import { createStaticFile, IMAGE_EXTENSIONS, type StaticFile } from '../static-files.ts';

export interface BrandingSettings {
  siteName: string;
  /** Null for the default logo. */
  logoFile: string | null;
  /** `#rrggbb`. */
  accentColor: string;
}

export interface Branding {
  siteName: string;
  logo: StaticFile;
  /** Sets the CSS variables `--accent` and `--on-accent`. */
  styleSheet: StaticFile;
}

const MAX_LOGO_BYTES = 100_000;

const DEFAULT_LOGO_FILE = fileURLToPath(new URL('browser/logo.svg', import.meta.url));

/** Throws OperatorError if the operator's logo is missing or unsuitable. */
export async function loadBranding(settings: BrandingSettings): Promise<Branding> {
  const { siteName, logoFile, accentColor } = settings;
  const styleSheet = `:root{--accent:${accentColor};--on-accent:${chooseTextColor(accentColor)}}`;
  return {
    siteName,
    logo: await loadLogo(logoFile ?? DEFAULT_LOGO_FILE),
    styleSheet: await createStaticFile(styleSheet, 'css'),
  };
}

async function loadLogo(file: string): Promise<StaticFile> {
  const extension = path.extname(file).slice(1).toLowerCase();
  if (!IMAGE_EXTENSIONS.includes(extension)) {
    throw new OperatorError(
      `SITE_LOGO must be a file whose name ends with ${IMAGE_EXTENSIONS.map((name) => `.${name}`).join(', ')}` +
        ` (got '${file}')`,
    );
  }
  const content = await readFile(file).catch((error: Error) => {
    throw new OperatorError(`SITE_LOGO cannot be read: ${error.message}`);
  });
  if (content.length > MAX_LOGO_BYTES) {
    throw new OperatorError(
      `SITE_LOGO must have at most ${MAX_LOGO_BYTES} bytes (got ${content.length})`,
    );
  }
  return createStaticFile(content, extension);
}

/** Returns black or white, whichever has more contrast (WCAG 2, relative luminance). */
function chooseTextColor(color: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const channel = Number.parseInt(color.slice(start, start + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  // At a luminance of sqrt(1.05 * 0.05) - 0.05, black and white have the same contrast.
  return luminance > 0.179 ? '#000' : '#fff';
}
