import { getDomain } from 'tldts';

/**
 * Returns the site of a URL: its registrable domain, such as `example.co.uk`, or its host if that is an IP address or
 * a single label. Limits apply per site, because the owner of a domain can create any number of host names.
 *
 * @param options.isPortPartOfSite for development, when all mints run on one machine
 */
export function getSite(url: string, options: { isPortPartOfSite: boolean }): string {
  const { origin, hostname } = new URL(url);
  return options.isPortPartOfSite ? origin : (getDomain(hostname) ?? hostname.replace(/\.$/, ''));
}
