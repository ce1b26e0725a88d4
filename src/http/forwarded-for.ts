import type { FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';

/**
 * From the connection on, as far as proxies are trusted (`TRUST_PROXY`): the last is whom the service takes
 * for the client.
 */
export function believedAddresses({ ip, ips }: FastifyRequest): [string, ...string[]] {
  const [peer = ip, ...others] = ips ?? [];
  return [asWritten(peer), ...others.map(asWritten)];
}

/** How many addresses of `X-Forwarded-For` are not followed: whoever named them is not trusted. */
export function unbelievedCount(request: FastifyRequest): number {
  const named = String(request.headers['x-forwarded-for'] ?? '');
  // `ips` follows the header anew whenever it is read.
  return named === '' ? 0 : named.split(',').length + 1 - (request.ips ?? ['']).length;
}

/** As people write it: IPv4, where a socket for every address has it in IPv6 (`::ffff:127.0.0.1`). */
function asWritten(address: string): string {
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
}
