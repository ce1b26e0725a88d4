import { normaliseServerUrl } from '../net/server-url.ts';

/** Longer than any real mint's URL. */
const MAX_MINT_URL_LENGTH = 512;

/** A query or a fragment, even if it is empty, or an `@` before the path, which marks credentials. */
const FORBIDDEN_PARTS = /[?#]|^[^/]*\/*[^/]*@/;

/** Some servers treat an escaped slash or backslash as a slash, others do not. */
const ESCAPED_SLASH = /%(?:2F|5C)/;

/**
 * Normalises the URL of a mint (see {@link normaliseServerUrl}). Wallets compare `mintUrl` as text, and two spellings
 * of one mint must share one rate limit.
 *
 * @param options.allowHttp whether to accept plain http and any port, for development
 * @returns null if the text is not the URL of a mint
 */
export function normaliseMintUrl(text: string, options: { allowHttp: boolean }): string | null {
  const normalised = normaliseServerUrl(text, {
    maxLength: MAX_MINT_URL_LENGTH,
    secureProtocol: 'https:',
    plainProtocol: 'http:',
    allowInsecure: options.allowHttp,
  });
  const isForbidden = FORBIDDEN_PARTS.test(text.trim()) || ESCAPED_SLASH.test(normalised ?? '');
  return isForbidden ? null : normalised;
}
