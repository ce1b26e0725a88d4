import { isPublicPort } from './public-port.ts';

/** Longer than any real mint's address; keeps a stranger's text out of rows, logs and memory. */
const MAX_MINT_URL_LENGTH = 512;

/** The parser drops or replaces these, so that the url would not be the one that people read. */
const DECEPTIVE = /[\p{Cc}\s\\]/u;

/** A query or fragment, even an empty one, or userinfo: an `@` before the path. */
const EXTRAS = /[?#]|^[^/]*\/*[^/]*@/;

/** An empty label, as in `mint..example`. */
const EMPTY_LABEL = /^\.|\.\.|\.$|^$/;

const ESCAPE = /%([0-9a-f]{2})/gi;

/** What means the same escaped and not (RFC 3986 section 2.3). */
const UNRESERVED = /^[\w.~-]$/;

/** Some servers take it for a slash, and some do not. */
const ESCAPED_SLASH = /%(?:2F|5C)/;

/**
 * The one text by which a mint is known: wallets compare `mintUrl` as text.
 *
 * Scheme and host in lower case (IDN as punycode, IPv4 as four decimals), no dot after the host, no
 * default port, no dot segments, no trailing or double slash, nothing escaped that need not be (RFC 3986
 * section 6.2.2): spellings of one mint must not have a limit each. The rest of the path as it is.
 *
 * @param text what a user or operator typed
 * @param options.allowHttp whether plain http, and any port, is accepted (development)
 * @returns the normalised url, or null where the text is not the address of a mint
 */
export function normaliseMintUrl(text: string, options: { allowHttp: boolean }): string | null {
  const trimmed = text.trim();
  if (
    text.length > MAX_MINT_URL_LENGTH ||
    DECEPTIVE.test(trimmed) ||
    EXTRAS.test(trimmed) ||
    !URL.canParse(trimmed)
  ) {
    return null;
  }
  const url = new URL(trimmed);
  const host = url.hostname.replace(/\.$/, '');
  const isOpen = url.protocol === 'https:' && isPublicPort(url);
  const isOpenForDevelopment = options.allowHttp && /^https?:$/.test(url.protocol);
  if (EMPTY_LABEL.test(host) || !(isOpen || isOpenForDevelopment)) {
    return null;
  }
  const port = url.port === '' ? '' : `:${url.port}`;
  const path = url.pathname
    .replace(ESCAPE, plainest)
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
  if (ESCAPED_SLASH.test(path)) {
    return null;
  }
  const normalised = `${url.protocol}//${host}${port}${path}`;
  // What is not ASCII has become longer.
  return normalised.length <= MAX_MINT_URL_LENGTH ? normalised : null;
}

function plainest(escaped: string, hex: string): string {
  const character = String.fromCharCode(Number.parseInt(hex, 16));
  return UNRESERVED.test(character) ? character : escaped.toUpperCase();
}
