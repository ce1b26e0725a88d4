import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { BlockList, isIPv6 } from 'node:net';

/** By this header a proxy gives a request its id, and the answer tells it. */
export const REQUEST_ID_HEADER = 'x-request-id';

/** What proxies make (UUIDs, hex, numbers): nothing that could be taken for more than an id in a log. */
const PLAIN_ID = /^[\w.:-]{1,64}$/;

/**
 * What names requests: by the id that a trusted proxy gave, where it is short and plain, so that its log and
 * ours tell of the same; anybody else's is passed over. For Fastify's `genReqId`.
 *
 * @param trustedProxies addresses and CIDRs
 */
export function requestIdsOf(
  trustedProxies: readonly string[],
): (request: IncomingMessage) => string {
  const trusted = new BlockList();
  for (const each of trustedProxies) {
    const [address = '', prefix] = each.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (prefix === undefined) {
      trusted.addAddress(address, family);
    } else {
      trusted.addSubnet(address, Number(prefix), family);
    }
  }
  return ({ headers, socket }) => {
    const given = headers[REQUEST_ID_HEADER];
    const isGiven = typeof given === 'string' && PLAIN_ID.test(given);
    return isGiven && isTrusted(socket.remoteAddress) ? given : randomUUID();
  };

  function isTrusted(address: string | undefined): boolean {
    return address !== undefined && trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
  }
}
