import { normaliseHostUrl } from './host-url.ts';
import { isForbiddenHost } from './public-address.ts';

/** Longer than any real relay's address; a stranger names twenty of them with each zap. */
const MAX_RELAY_URL_LENGTH = 255;

/**
 * The one text by which a relay is known, so that two spellings get one connection and one receipt. See
 * {@link normaliseHostUrl}. An escaped slash and the query stay as they are: filtering relays keep there
 * whom they serve.
 *
 * @param text what a stranger or the operator wrote
 * @param options.allowPrivate whether plain ws, any port and private addresses are accepted (development)
 * @returns the normalised url, or null where the text is not the address of a relay
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
 * What a log or a message tells of a relay: relays that keep apart whom they serve have that in the query,
 * and paid ones a token.
 */
export function withoutQuery(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

function isPublic(url: string): boolean {
  const { hostname } = new URL(url);
  const withoutBrackets = hostname.replace(/^\[|\]$/g, '');
  return !isForbiddenHost(withoutBrackets);
}
