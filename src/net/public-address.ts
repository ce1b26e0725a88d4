import ipaddr from 'ipaddr.js';

/** The only block of public IPv6 addresses (RFC 4291). */
const GLOBAL_UNICAST_V6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** NAT64 addresses that contain a public IPv4 address. Those in `64:ff9b:1::/48` lead into a private network. */
const PUBLIC_NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');

/** The address is in a public range, but it leads to the platform of an Azure virtual machine. */
const AZURE_METADATA_ADDRESS = '168.63.129.16';

/** Returns whether untrusted URLs may lead to an IP address. An IPv4 address inside an IPv6 address must be public, too. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) {
    return false;
  }
  const parsed = ipaddr.parse(address);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.range() === 'unicast' && parsed.toString() !== AZURE_METADATA_ADDRESS;
  }
  // A zone is an interface of this machine.
  if (parsed.zoneId !== undefined) {
    return false;
  }
  const bytes = parsed.toByteArray();
  switch (parsed.range()) {
    case 'unicast':
      return parsed.match(GLOBAL_UNICAST_V6);
    case 'ipv4Mapped':
      return isPublicAddress(bytes.slice(12).join('.'));
    case 'rfc6052': // NAT64
      return parsed.match(PUBLIC_NAT64) && isPublicAddress(bytes.slice(12).join('.'));
    case '6to4':
      return isPublicAddress(bytes.slice(2, 6).join('.'));
    default:
      return false;
  }
}

/** Names that always mean this machine, whatever a name server returns for them (RFC 6761 section 6.3). */
const LOOPBACK_NAME = /^(.*\.)?localhost\.?$/i;

/** Returns whether the host of a URL is an address that is not public, or a name of this machine. */
export function isForbiddenHost(hostname: string): boolean {
  const host = withoutBrackets(hostname);
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(host) || ipaddr.IPv6.isValid(host);
  return isAddress ? !isPublicAddress(host) : LOOPBACK_NAME.test(host);
}

/** URLs have brackets around an IPv6 address. */
export function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/** The default port, or an unprivileged one: a service without TLS receives nothing there that the URL's author chose. */
export function isAllowedPort({ port }: Pick<URL, 'port'>): boolean {
  return port === '' || Number(port) >= 1024;
}
