import { bech32 } from '@scure/base';

/** What a person entered for a Lightning address. Neither part is validated. */
export interface AddressInput {
  /** What precedes the `@`, as the person wrote it; see `parseRecipientAddress`. */
  localPart: string;
  /** The host, with its port, in lower case; null if the input names none. */
  host: string | null;
}

/** Such a scheme may precede a name or an address (NIP-21, LUD-01). */
const ADDRESS_SCHEME = /^(?:nostr|lightning):(?:\/\/)?/i;

/** The scheme may be missing, because browsers hide it. The host begins with a letter or digit, or is an IPv6 address. */
const URL_PATTERN =
  /^(?:(?:https?|lnurlp):\/\/)?([\w[][^/?#@]*)\/(?:\.well-known\/lnurlp\/)?([^/?#]*)/i;

/**
 * Parses what people enter for a Lightning address: a username or an npub, also after an `@`; an address (LUD-16);
 * these with the scheme `nostr:` or `lightning:`; the URL of a payment page; an LNURL (LUD-01, LUD-17).
 */
export function parseAddressInput(text: string): AddressInput {
  const address = decodeLnurl(text.trim().replace(ADDRESS_SCHEME, '')).replace(/^@/, '');
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
