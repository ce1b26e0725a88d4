import { normaliseHostUrl } from '../net/host-url.ts';
import { isForbiddenHost } from '../net/public-address.ts';

/** Longer than any real relay URL; a stranger names twenty of them with each zap. */
const MAX_RELAY_URL_LENGTH = 255;

/**
 * Normalises the URL of a relay, so that two spellings get one connection and one receipt. See
 * {@link normaliseHostUrl}. Keeps an escaped slash and the query: filtering relays name their users there.
 *
 * @param text from a stranger or the operator
 * @param options.allowPrivate whether plain ws, any port and private addresses are accepted (development)
 * @returns null if the text is not the URL of a relay
 */
export function normaliseRelayUrl(text: string, options: { allowPrivate: boolean }): string | null {
  const normalised = normaliseHostUrl(text, {
    maxLength: MAX_RELAY_URL_LENGTH,
    secure: 'wss:',
    plain: 'ws:',
    allowPlain: options.allowPrivate,
  });
  const isRelay = normalised !== null && (options.allowPrivate || isPublic(normalised));
  return isRelay ? normalised : null;
}

/**
 * The URL for logs and messages: filtering relays have their users in the query, and paid ones a token.
 */
export function withoutQuery(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

function isPublic(url: string): boolean {
  const { hostname } = new URL(url);
  const withoutBrackets = hostname.replace(/^\[|\]$/g, '');
  return !isForbiddenHost(withoutBrackets);
}
