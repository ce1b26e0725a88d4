/** Of printable ASCII, written in percents, what leads to the same route: all but a slash. */
const NEEDLESS_ESCAPE = /%(?!2f)[2-7][0-9a-f]/gi;

/** The path of a request's target as the router reads it: one slash for several, nothing escaped needlessly. */
export function routedPath(url: string): string {
  return url
    .replace(/[?#].*$/, '')
    .replace(NEEDLESS_ESCAPE, decodeURIComponent)
    .replace(/\/{2,}/g, '/');
}
