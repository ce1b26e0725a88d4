/** The same text in memory of its own: one that was cut out of a request keeps all of that request's text. */
export function ownCopy(text: string): string {
  return Buffer.from(text).toString();
}
