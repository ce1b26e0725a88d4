import { RequestError } from '../errors.ts';
import { normaliseServerUrl } from '../net/server-url.ts';
import { getSite } from '../net/site.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';

/** Returns the URL to which messages are sent. @throws RequestError `invalid` if it is not acceptable */
export function parseReceiverUrl(
  text: string,
  { allowPrivateNetworks }: { allowPrivateNetworks: boolean },
): { url: string; site: string } {
  const isAcceptable = normaliseServerUrl(text, {
    maxLength: NOTIFICATION_LIMITS.maxUrlLength,
    scheme: 'http',
    allowInsecure: allowPrivateNetworks,
  });
  // Not the normalised URL, because a program may need a slash at the end.
  const url = URL.parse(text)?.href;
  if (url === undefined || isAcceptable === null) {
    throw new RequestError(
      'invalid',
      'channels: the URL must be an https:// URL without user, on port 443 or from 1024 on.',
    );
  }
  return { url, site: getSite(url) };
}
