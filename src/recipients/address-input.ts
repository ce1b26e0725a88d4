import { bech32 } from '@scure/base';

/** Matches a host and a path. The scheme may be missing, because browsers hide it. `[` begins an IPv6 address. */
const URL_PATTERN =
  /^(?:(?:https?|lnurlp):\/\/)?((?:\w|\[)[^/?#@]*)\/(?:\.well-known\/lnurlp\/)?([^/?#]*)/i;

/**
 * Parses what people enter for a Lightning address: a username, `@username`, an npub, an address (LUD-16), also with `₿`
 * before it (BIP 353), the URL of a payment page, or an LNURL (LUD-01, LUD-17), each with or without `nostr:` or `lightning:` (NIP-21, LUD-01). Validates
 * neither part. The host is in lower case and includes the port.
 */
export function parseAddressInput(text: string): { localPart: string; host: string | null } {
  const withoutScheme = text.trim().replace(/^(?:nostr|lightning):(?:\/\/)?/i, '');
  const address = decodeLnurl(withoutScheme).replace(/^[@₿]/, '');
  const url = URL_PATTERN.exec(address);
  if (url !== null) {
    const [, host = '', localPart = ''] = url;
    return { localPart, host: host.toLowerCase() };
  }
  const atIndex = address.indexOf('@');
  return atIndex === -1
    ? { localPart: address, host: null }
    : { localPart: address.slice(0, atIndex), host: address.slice(atIndex + 1).toLowerCase() };
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
