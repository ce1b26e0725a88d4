import { bech32 } from '@scure/base';

/** The scheme may be missing, because browsers hide it. The host begins with a letter or digit, or is an IPv6 address. */
const URL_PATTERN =
  /^(?:(?:https?|lnurlp):\/\/)?([\w[][^/?#@]*)\/(?:\.well-known\/lnurlp\/)?([^/?#]*)/i;

/**
 * Parses what people enter for a Lightning address: a username or an npub, also after an `@`; an address (LUD-16);
 * these with the scheme `nostr:` or `lightning:` (NIP-21, LUD-01); the URL of a payment page; an LNURL (LUD-01, LUD-17).
 * Validates neither part. The host includes the port, in lower case.
 */
export function parseAddressInput(text: string): { localPart: string; host: string | null } {
  const withoutScheme = text.trim().replace(/^(?:nostr|lightning):(?:\/\/)?/i, '');
  const address = decodeLnurl(withoutScheme).replace(/^@/, '');
  const url = URL_PATTERN.exec(address);
  if (url !== null) {
    const [, host = '', localPart = ''] = url;
    return { localPart, host: host.toLowerCase() };
  }
  const [localPart = '', ...hostParts] = address.split('@');
  return { localPart, host: hostParts.length === 0 ? null : hostParts.join('@').toLowerCase() };
}

/** Returns the URL in an LNURL (LUD-01), and any other text unchanged. */
function decodeLnurl(text: string): string {
  try {
    return /^lnurl1/i.test(text)
      ? new TextDecoder().decode(bech32.decodeToBytes(text).bytes)
      : text;
  } catch {
    return text;
  }
}
