/** Longer than any real mint's address; keeps a stranger's text out of rows, logs and memory. */
const MAX_MINT_URL_LENGTH = 512;

/**
 * The one text by which a mint is known: wallets compare `mintUrl` as text.
 *
 * Scheme and host in lower case (IDN as punycode), no default port, no trailing slash, path as it is.
 *
 * @param text what a user or operator typed
 * @param options.allowHttp whether plain http is accepted (development)
 * @returns the normalised url, or null where the text is not the address of a mint
 */
export function normaliseMintUrl(text: string, options: { allowHttp: boolean }): string | null {
  if (text.length > MAX_MINT_URL_LENGTH || !URL.canParse(text)) {
    return null;
  }
  const url = new URL(text);
  const isSchemeAllowed =
    url.protocol === 'https:' || (options.allowHttp && url.protocol === 'http:');
  const hasExtras =
    url.username !== '' || url.password !== '' || /[?#]/.test(text) || url.hostname === '';
  if (!isSchemeAllowed || hasExtras) {
    return null;
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}
