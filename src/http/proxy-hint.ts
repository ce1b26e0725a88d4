import type { FastifyInstance, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Log } from '../log.ts';
import { believedAddresses, unbelievedCount } from './forwarded-for.ts';

/** Where an operator's own reverse proxy stands, and no stranger. */
const NEARBY: ReadonlySet<string> = new Set(['loopback', 'private', 'uniqueLocal', 'linkLocal']);

/**
 * Tells the operator, once in the life of a process, of a reverse proxy that `TRUST_PROXY` does not
 * name: all of its clients would be counted as one address, and refused together.
 */
export function hintAtUntrustedProxy(app: FastifyInstance, log: Log): void {
  let isToldOf = false;
  app.addHook('onRequest', (request, _reply, done) => {
    const proxy = isToldOf ? null : untrustedProxy(request);
    if (proxy !== null) {
      isToldOf = true;
      log.warn(
        { proxy },
        `requests come through a proxy at ${proxy} that is not trusted: all of its clients count as one` +
          ` address, and are refused together; if it is your reverse proxy, set TRUST_PROXY=${proxy}`,
      );
    }
    done();
  });
}

function untrustedProxy(request: FastifyRequest): string | null {
  if (unbelievedCount(request) === 0) {
    return null;
  }
  const [address, ...others] = believedAddresses(request);
  // One that is trusted is followed to the address behind it.
  const isNear = ipaddr.isValid(address) && NEARBY.has(ipaddr.parse(address).range());
  return others.length === 0 && isNear ? address : null;
}
