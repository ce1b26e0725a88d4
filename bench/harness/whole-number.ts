/** @throws Error if the value of a command-line option is not a whole number of at least 1 */
export function parseWholeNumber(option: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new Error(`${option} must be a whole number of at least 1 (got '${text}').`);
  }
  return number;
}
