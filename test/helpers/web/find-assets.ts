/** Returns the paths of the files to which a page refers. */
export function findAssets(html: string): string[] {
  return [...new Set(Array.from(html.matchAll(/"(\/assets\/[^"]+)"/g), ([, path = '']) => path))];
}
