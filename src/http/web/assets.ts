import { createHash } from 'node:crypto';
import path from 'node:path';
import { createStaticFile, type StaticFile } from '../static-files.ts';
import { type Branding, COLOR_SCHEMES } from './branding.ts';
import { loadBrowserFiles } from './browser-files.ts';

/** The files that belong to the pages. */
export interface Assets {
  /** By path. The path contains a hash of the content, so that browsers can keep the file without asking again. */
  files: ReadonlyMap<string, StaticFile>;
  /** By path. Browsers and search engines look for these files without being told their paths. */
  wellKnownFiles: ReadonlyMap<string, StaticFile>;
  /** Returns the path of a file in `files` by its name, such as `style.css`. */
  getPath: (name: string) => string;
}

/** Pages that search engines must not show say so themselves. */
const ROBOTS_TXT = 'User-agent: *\nDisallow: /api/\n';

export async function loadAssets(branding: Branding): Promise<Assets> {
  const { siteName, logo, icons, styleRules } = branding;
  const files = new Map<string, StaticFile>();
  const paths = new Map<string, string>();
  const getPath = (name: string) => {
    const filePath = paths.get(name);
    if (filePath === undefined) {
      throw new Error(`the pages have no file '${name}'`);
    }
    return filePath;
  };
  const addFile = async (name: string, content: string | Uint8Array) => {
    const hash = createHash('sha256').update(content).digest('hex').slice(0, 12);
    const { name: stem, ext: extension } = path.parse(name);
    const filePath = `/assets/${stem}-${hash}${extension}`;
    paths.set(name, filePath);
    files.set(filePath, await createStaticFile(content, extension.slice(1)));
  };

  for (const [name, content] of await loadBrowserFiles()) {
    const isStyleSheet = name === 'style.css';
    await addFile(name, isStyleSheet ? Buffer.concat([Buffer.from(styleRules), content]) : content);
  }
  for (const { name, content } of [logo, ...icons.manifestIcons]) {
    await addFile(name, content);
  }
  const manifest = {
    name: siteName,
    start_url: '/',
    display: 'minimal-ui',
    background_color: COLOR_SCHEMES.light.background,
    icons: icons.manifestIcons.map(({ name, sizes }) => ({ src: getPath(name), sizes })),
  };
  await addFile('manifest.webmanifest', JSON.stringify(manifest));

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
  return { files, wellKnownFiles, getPath };
}
