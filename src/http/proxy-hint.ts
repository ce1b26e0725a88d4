import type { FastifyInstance, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Log } from '../log.ts';

/** Address ranges of an operator's own reverse proxy. A stranger on the internet has none of these. */
const PRIVATE_RANGES: ReadonlySet<string> = new Set([
  'loopback',
  'private',
  'uniqueLocal',
  'linkLocal',
]);

/**
 * Warns, once per process, of a reverse proxy that `TRUST_PROXY` does not name: all of its clients count as one
 * address and share its rate limits.
 */
export function hintAtUntrustedProxy(app: FastifyInstance, log: Log): void {
  let hasWarned = false;
  app.addHook('onRequest', (request, _reply, done) => {
    const proxy = hasWarned ? null : untrustedProxy(request);
    if (proxy !== null) {
      hasWarned = true;
      log.warn(
        { proxy },
        `requests come through a proxy at ${proxy} that is not trusted: all of its clients count as one` +
          ` address, and are refused together; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
      );
    }
    done();
  });
}

/** The address of a proxy whose `X-Forwarded-For` is ignored; null if there is none. */
function untrustedProxy({ headers, ip, ips = [ip] }: FastifyRequest): string | null {
  // `ips` has more than one entry if the address that the connection came from is trusted.
  if (!headers['x-forwarded-for'] || ips.length > 1 || !ipaddr.isValid(ip)) {
    return null;
  }
  // A socket for every address reports IPv4 as IPv6 (`::ffff:127.0.0.1`).
  const address = ipaddr.process(ip);
  return PRIVATE_RANGES.has(address.range()) ? address.toString() : null;
}
