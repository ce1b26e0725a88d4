/**
 * What a value of a form or of a url's query may mean, the more usual first: at most two texts.
 *
 * A form writes a blank as `+`. JavaScript's `encodeURI` leaves a `+` as it is: nobody can tell from the
 * outside. A reading whose percents make no sense is the value as it is.
 */
export function formReadings(encoded: string): string[] {
  const readings = [encoded.replaceAll('+', ' '), encoded].map(decode);
  return [...new Set(readings)];
}

function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
