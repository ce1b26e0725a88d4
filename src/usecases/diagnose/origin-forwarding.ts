import type { ReachedAs } from '../../auth/reach-proof.ts';
import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import { type OriginParts, reach } from './reach.ts';

/** For examples (RFC 5737): nobody has it. */
const NOBODYS_ADDRESS = '203.0.113.77';

/**
 * As long as the token of a purchase may be, beside what else stands in headers: the service takes 64 KiB
 * in all.
 */
const LONG_HEADER_LENGTH = 48 * 1024;

/** Looks how a proxy passes requests on, if there is one. */
export async function checkForwarding(
  origin: string,
  seen: ReachedAs,
  sellsNames: boolean,
  parts: OriginParts,
): Promise<Finding[]> {
  const [address, length] = await Promise.all([
    checkAddress(origin, seen, parts),
    sellsNames ? checkLength(origin, parts) : [],
  ]);
  return [checkHost(origin, seen), ...address, ...length];
}

function checkHost(origin: string, seen: ReachedAs): Finding {
  const { host } = new URL(origin);
  if (!seen.origins.includes(origin)) {
    return problem(
      'origin.unlisted',
      `The service that runs does not know ${origin}: its PUBLIC_ORIGINS are ${seen.origins.join(', ')}`,
      'Restart it with these settings.',
    );
  }
  if (seen.origin !== origin) {
    return problem(
      'origin.host',
      `Who comes to ${origin} is sent on to ${seen.origin}: the service sees ${seen.protocol}://${seen.host}`,
      'Have the proxy pass on Host as the client sent it, port included, and set X-Forwarded-Proto; TRUST_PROXY has to name the proxy.',
    );
  }
  return isSameHost(seen.host, host)
    ? ok('origin.host', `${origin} arrives with its name`)
    : note(
        'origin.host',
        `Requests to ${origin} arrive for ${seen.host}; that is well as long as it is the canonical origin`,
        'Have the proxy pass on Host as the client sent it.',
      );
}

function isSameHost(seen: string, host: string): boolean {
  return seen.toLowerCase().replace(/:(?:80|443)$/, '') === host.toLowerCase();
}

async function checkAddress(
  origin: string,
  seen: ReachedAs,
  parts: OriginParts,
): Promise<Finding[]> {
  const isBehindProxy = seen.isForwarded || origin.startsWith('https:');
  if (!isBehindProxy) {
    return [];
  }
  if (seen.isProxyUntrusted) {
    return [
      problem(
        'proxy.untrusted',
        `The proxy at ${seen.peerAddress} is not in TRUST_PROXY: all clients of ${origin} count as one address, and are refused together`,
        `If it is yours, set TRUST_PROXY=${seen.peerAddress}.`,
      ),
    ];
  }
  if (!seen.isForwarded) {
    return [
      problem(
        'proxy.silent',
        `The proxy of ${origin} does not say for whom it asks: all clients count as one address, and are refused together`,
        `Have it set X-Forwarded-For, and set TRUST_PROXY=${seen.peerAddress} if that is the proxy.`,
      ),
    ];
  }
  const again = await reach(origin, { 'x-forwarded-for': NOBODYS_ADDRESS }, parts);
  return again.outcome === 'reached' && again.seen.clientAddress === NOBODYS_ADDRESS
    ? [
        warning(
          'proxy.believes',
          `A client of ${origin} can say what its address is (X-Forwarded-For was passed on), and so escape all limits by address`,
          'Have the proxy set X-Forwarded-For in place of what the client sent, and name no address in TRUST_PROXY that a client could have.',
        ),
      ]
    : [
        ok(
          'proxy.address',
          `Clients of ${origin} are told apart: this machine is ${seen.clientAddress}`,
        ),
      ];
}

async function checkLength(origin: string, parts: OriginParts): Promise<Finding[]> {
  // Of the alphabet of tokens, and of none: it cannot be redeemed by whoever it goes to.
  const long = await reach(origin, { 'x-cashu': 'A'.repeat(LONG_HEADER_LENGTH) }, parts);
  if (long.outcome === 'reached') {
    return [ok('proxy.length', `${origin} lets long tokens through`)];
  }
  const answered = long.outcome === 'elsewhere' ? `status ${long.status}` : long.reason;
  return [
    problem(
      'proxy.length',
      `${origin} does not let ${LONG_HEADER_LENGTH / 1024} KB of headers through (${answered}): names cannot be paid for with long tokens`,
      'Let 64 KB of headers through; docs/proxies has examples.',
    ),
  ];
}
