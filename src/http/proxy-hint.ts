import type { FastifyInstance, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Log } from '../log.ts';

/** Where an operator's own reverse proxy stands, and no stranger. */
const NEARBY: ReadonlySet<string> = new Set(['loopback', 'private', 'uniqueLocal', 'linkLocal']);

/**
 * Tells the operator, once in the life of a process, of a reverse proxy that `TRUST_PROXY` does not
 * name: all of its clients would be counted as one address, and refused together.
 */
export function hintAtUntrustedProxy(app: FastifyInstance, log: Log): void {
  let isToldOf = false;
  app.addHook('onRequest', async (request) => {
    const proxy = isToldOf ? null : untrustedProxy(request);
    if (proxy !== null) {
      isToldOf = true;
      log.warn(
        { proxy },
        `requests come through a proxy at ${proxy} that is not trusted: all of its clients count as one` +
          ` address, and are refused together; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
      );
    }
  });
}

function untrustedProxy(request: FastifyRequest): string | null {
  // One that is trusted is followed to the address behind it.
  const hasSpoken = (request.headers['x-forwarded-for'] ?? '') !== '';
  if (!hasSpoken || request.ips?.length !== 1) {
    return null;
  }
  const { remoteAddress } = request.socket;
  if (remoteAddress === undefined || !ipaddr.isValid(remoteAddress)) {
    return null;
  }
  const address = ipaddr.process(remoteAddress);
  return NEARBY.has(address.range()) ? address.toString() : null;
}
