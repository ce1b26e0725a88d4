/** Returns the paths of the files to which a page refers. Their names contain a hash of their content. */
export function findAssets(html: string): string[] {
  return [...new Set(Array.from(html.matchAll(/"(\/assets\/[^"]+)"/g), ([, path = '']) => path))];
}
