import { bech32 } from '@scure/base';

/** Returns the URL of an address as bech32 text in lower case (LUD-01). */
export function encodeLnurl(url: string): string {
  return bech32.encode('lnurl', bech32.toWords(new TextEncoder().encode(url)), false);
}
