import { normaliseHostUrl } from '../net/host-url.ts';

/** Longer than any real mint's address; keeps a stranger's text out of rows, logs and memory. */
const MAX_MINT_URL_LENGTH = 512;

/** A query or fragment, even an empty one, or userinfo: an `@` before the path. */
const EXTRAS = /[?#]|^[^/]*\/*[^/]*@/;

/** Some servers take it for a slash, and some do not. */
const ESCAPED_SLASH = /%(?:2F|5C)/;

/**
 * The one text by which a mint is known: wallets compare `mintUrl` as text, and spellings of one mint must
 * not have a limit each. See {@link normaliseHostUrl}.
 *
 * @param text what a user or operator typed
 * @param options.allowHttp whether plain http, and any port, is accepted (development)
 * @returns the normalised url, or null where the text is not the address of a mint
 */
export function normaliseMintUrl(text: string, options: { allowHttp: boolean }): string | null {
  const normalised = normaliseHostUrl(text, {
    maxLength: MAX_MINT_URL_LENGTH,
    secure: 'https:',
    plain: 'http:',
    allowPlain: options.allowHttp,
  });
  const isMint =
    normalised !== null && !EXTRAS.test(text.trim()) && !ESCAPED_SLASH.test(normalised);
  return isMint ? normalised : null;
}
