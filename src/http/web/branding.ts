import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { OperatorError } from '../../errors.ts';
import { IMAGE_EXTENSIONS } from '../static-files.ts';

export interface BrandingSettings {
  siteName: string;
  /** Null for the default logo. */
  logoFile: string | null;
  /** `#rrggbb`. */
  accentColor: string;
  /** Links in the footer. */
  links: readonly SiteLink[];
}

interface SiteLink {
  label: string;
  href: string;
}

export interface Branding {
  siteName: string;
  links: readonly SiteLink[];
  logo: Image;
  icons: {
    favicon: Image;
    /** For home screens of Apple devices. Null if there is no PNG. */
    appleTouchIcon: Image | null;
    manifestIcons: readonly Image[];
    /** For previews of links. Null if there is no PNG. */
    previewImage: Image | null;
  };
  /** Sets the CSS variables that depend on the accent color. */
  styleRules: string;
}

interface Image {
  name: string;
  content: Buffer;
  /** As in `icon-192.png`; `any` for an operator's logo. */
  sizes: string;
}

/** The colors behind buttons. `style.css` has all other colors. */
export const COLOR_SCHEMES = {
  light: { background: '#faf8f5', surface: '#ffffff' },
  dark: { background: '#171513', surface: '#211e1b' },
};

const MAX_LOGO_BYTES = 100_000;

/** Throws OperatorError if the operator's logo is missing or unsuitable. */
export async function loadBranding(settings: BrandingSettings): Promise<Branding> {
  const { siteName, logoFile, accentColor, links } = settings;
  return {
    siteName,
    links,
    ...(logoFile === null ? await loadDefaultLogo() : await loadLogo(logoFile)),
    styleRules:
      `:root{--accent:${accentColor};--on-accent:${chooseTextColor(accentColor)}}` +
      renderScheme(COLOR_SCHEMES.light, accentColor) +
      `@media screen and (prefers-color-scheme:dark){${renderScheme(COLOR_SCHEMES.dark, accentColor)}}`,
  };
}

/**
 * Chromium rendered the PNG files from `logo.svg`, at 80 % of their width in the middle of the light background, because
 * Apple devices show transparent parts of icons in black.
 */
async function loadDefaultLogo() {
  const load = async (name: string, sizes: string): Promise<Image> => ({
    name,
    content: await readFile(new URL(`images/${name}`, import.meta.url)),
    sizes,
  });
  const [small, large] = [
    await load('icon-192.png', '192x192'),
    await load('icon-512.png', '512x512'),
  ];
  return {
    logo: await load('logo.svg', 'any'),
    icons: {
      favicon: small,
      appleTouchIcon: await load('icon-180.png', '180x180'),
      manifestIcons: [small, large],
      previewImage: large,
    },
  };
}

/** Loads an operator's logo, which is also every icon, because the service cannot convert images. */
async function loadLogo(file: string) {
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
  const logo = { name: `logo.${extension}`, content, sizes: 'any' };
  const png = extension === 'png' ? logo : null;
  return {
    logo,
    icons: { favicon: logo, appleTouchIcon: png, manifestIcons: [logo], previewImage: png },
  };
}

/** Buttons get a border if their color hardly differs from the color behind them (WCAG 2, 1.4.11). */
function renderScheme(
  { background, surface }: Record<'background' | 'surface', string>,
  accentColor: string,
): string {
  const isVisible = [background, surface].every((color) => getContrast(accentColor, color) >= 3);
  const border = isVisible ? 'transparent' : 'var(--field-line)';
  return `:root{--background:${background};--surface:${surface};--accent-border:${border}}`;
}

function chooseTextColor(color: string): string {
  const [black, white] = ['#000000', '#ffffff'];
  return getContrast(color, black) > getContrast(color, white) ? black : white;
}

/** Returns the contrast ratio of two colors, from 1 to 21 (WCAG 2). */
function getContrast(first: string, second: string): number {
  const [dark = 0, light = 0] = [first, second].map(getLuminance).toSorted((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function getLuminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
    const channel = Number.parseInt(color.slice(start, start + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
