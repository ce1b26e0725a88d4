import { createHash } from 'node:crypto';
import path from 'node:path';
import { createStaticFile, type StaticFile } from '../static-files.ts';
import { type Branding, COLOR_SCHEMES } from './branding.ts';
import { findBrowserFiles } from './browser-files.ts';

/** The files that belong to the pages. */
export interface Assets {
  /** A part of all paths. It changes with the files, so that browsers can keep them without asking again. */
  version: string;
  /** Returns the path of a file by its name, such as `style.css`. */
  getPath: (name: string) => string;
  /** Returns the files by name. */
  load: () => Promise<ReadonlyMap<string, StaticFile>>;
  /** By path. Browsers and search engines look for these files without being told their paths. */
  wellKnownFiles: ReadonlyMap<string, StaticFile>;
}

/** Pages that search engines must not show say so themselves. */
const ROBOTS_TXT = 'User-agent: *\nDisallow: /api/\n';

export async function prepareAssets(branding: Branding): Promise<Assets> {
  const { siteName, logo, icons, styleRules } = branding;
  const browserFiles = await findBrowserFiles();
  const images = [logo, ...icons.manifestIcons];
  const hash = createHash('sha256')
    .update(browserFiles.version)
    .update(styleRules)
    .update(siteName);
  for (const { content } of images) {
    hash.update(content);
  }
  const version = hash.digest('hex').slice(0, 12);
  const getPath = (name: string) => `/assets/${version}/${name}`;

  const loadAll = async () => {
    const files = new Map<string, StaticFile>();
    const add = async (name: string, content: string | Uint8Array) => {
      files.set(name, await createStaticFile(content, path.extname(name).slice(1)));
    };
    for (const [name, content] of await browserFiles.load()) {
      const isStyleSheet = name === 'style.css';
      await add(name, isStyleSheet ? Buffer.concat([Buffer.from(styleRules), content]) : content);
    }
    for (const { name, content } of images) {
      await add(name, content);
    }
    const manifest = {
      name: siteName,
      // Recipients install it. iPhones and iPads show notifications only of pages that are installed as `standalone`.
      start_url: '/account',
      display: 'standalone',
      background_color: COLOR_SCHEMES.light.background,
      icons: icons.manifestIcons.map(({ name, sizes }) => ({ src: getPath(name), sizes })),
    };
    await add('manifest.webmanifest', JSON.stringify(manifest));
    return files;
  };
  let loading: Promise<ReadonlyMap<string, StaticFile>> | undefined;

  const wellKnownFiles = new Map<string, StaticFile>();
  wellKnownFiles.set('/robots.txt', await createStaticFile(ROBOTS_TXT, 'txt'));
  for (const [filePath, image] of [
    // Browsers accept any image.
    ['/favicon.ico', icons.favicon],
    ['/apple-touch-icon.png', icons.appleTouchIcon],
  ] as const) {
    if (image !== null) {
      const extension = path.extname(image.name).slice(1);
      wellKnownFiles.set(filePath, await createStaticFile(image.content, extension));
    }
  }
  return { version, getPath, load: () => (loading ??= loadAll()), wellKnownFiles };
}
