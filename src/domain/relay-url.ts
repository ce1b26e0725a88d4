import { isForbiddenHost } from './public-address.ts';
import { isPublicPort } from './public-port.ts';

/** Longer than any real relay's address; a stranger names twenty of them with each zap. */
const MAX_RELAY_URL_LENGTH = 255;

/** The parser drops or replaces these, so that the url would not be the one that people read. */
const DECEPTIVE = /[\p{Cc}\s\\]/u;

/** An empty label, as in `relay..example`. */
const EMPTY_LABEL = /^\.|\.\.|\.$|^$/;

/**
 * The one text by which a relay is known, so that two spellings get one connection and one receipt.
 *
 * Scheme and host in lower case, no dot after the host, no default port, no slash at the end, no fragment.
 * The rest of the path and the query as they are: filtering relays keep whom they serve there.
 *
 * @param text what a stranger or the operator wrote
 * @param options.allowPrivate whether plain ws, any port and private addresses are accepted (development)
 * @returns the normalised url, or null where the text is not the address of a relay
 */
export function normaliseRelayUrl(text: string, options: { allowPrivate: boolean }): string | null {
  const trimmed = text.trim();
  if (text.length > MAX_RELAY_URL_LENGTH || DECEPTIVE.test(trimmed) || !URL.canParse(trimmed)) {
    return null;
  }
  const url = new URL(trimmed);
  const host = url.hostname.replace(/\.$/, '');
  const isOpen = url.protocol === 'wss:' && isPublicPort(url) && !isForbiddenHost(bare(host));
  const isOpenForDevelopment = options.allowPrivate && /^wss?:$/.test(url.protocol);
  const hasUser = url.username !== '' || url.password !== '';
  if (EMPTY_LABEL.test(host) || hasUser || !(isOpen || isOpenForDevelopment)) {
    return null;
  }
  const port = url.port === '' ? '' : `:${url.port}`;
  const path = url.pathname.replace(/\/+$/, '');
  const normalised = `${url.protocol}//${host}${port}${path}${url.search}`;
  // What is not ASCII has become longer.
  return normalised.length <= MAX_RELAY_URL_LENGTH ? normalised : null;
}

/** Without the brackets of an IPv6 address. */
function bare(host: string): string {
  return host.replace(/^\[|\]$/g, '');
}
