import { encodeLnurl } from '../../lnurl.ts';

/**
 * Returns the payment page of a Lightning address of this server, and a URI for QR codes (LUD-01).
 *
 * @param pageOrigin the origin on which the user sees the account
 */
export function locateAddress(
  address: string,
  pageOrigin: string,
): { paymentPage: string; uri: string } {
  const [localPart = '', host = ''] = address.split('@');
  const origin = `${chooseScheme(host, pageOrigin)}//${host}`;
  const lnurl = encodeLnurl(`${origin}/.well-known/lnurlp/${localPart}`);
  return { paymentPage: `${origin}/${localPart}`, uri: `lightning:${lnurl.toUpperCase()}` };
}

/** Payers use HTTPS, except for onion services (LUD-16). Only a server for development lacks it. */
function chooseScheme(host: string, pageOrigin: string): string {
  const page = new URL(pageOrigin);
  if (host === page.host) {
    return page.protocol;
  }
  return host.endsWith('.onion') ? 'http:' : 'https:';
}
