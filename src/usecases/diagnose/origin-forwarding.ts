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
  const { unbelieved } = seen;
  const [peer, ...others] = seen.addresses;
  const isForwarded = others.length > 0 || unbelieved > 0;
  if (!isForwarded && !origin.startsWith('https:')) {
    return [];
  }
  if (!isForwarded) {
    return [
      problem(
        'proxy.silent',
        `The proxy of ${origin} does not say for whom it asks: all clients count as one address, and are refused together`,
        `Have it set X-Forwarded-For, and set TRUST_PROXY=${peer} if that is the proxy.`,
      ),
    ];
  }
  const client = clientOf(seen);
  // None was named from here: who is not believed is a proxy, and counts as the client.
  if (unbelieved > 0) {
    return [
      problem(
        'proxy.untrusted',
        `The proxy at ${client} is not in TRUST_PROXY: all clients of ${origin} that come through it count as one address, and are refused together`,
        others.length === 0
          ? `If it is yours, set TRUST_PROXY=${client}.`
          : `If it is yours, or of somebody whose service you use, add it to TRUST_PROXY, or all of that one's addresses. Else have the nearest proxy set X-Forwarded-For to what it sees.`,
      ),
    ];
  }
  const again = await reach(origin, { 'x-forwarded-for': NOBODYS_ADDRESS }, parts);
  if (again.outcome !== 'reached' || clientOf(again.seen) !== NOBODYS_ADDRESS) {
    return [ok('proxy.address', `Clients of ${origin} are told apart: this machine is ${client}`)];
  }
  // A proxy that adds what it sees to what it was sent is right; it is this machine that is believed then.
  return again.seen.addresses.length > seen.addresses.length
    ? [
        note(
          'proxy.self_trusted',
          `This machine (${client}) is itself in TRUST_PROXY, and is believed what its address is: whether other clients of ${origin} are is not seen from here`,
          'Run `nutpost doctor` with these settings on a machine elsewhere.',
        ),
      ]
    : [
        warning(
          'proxy.believes',
          `A client of ${origin} can say what its address is (X-Forwarded-For was passed on), and so escape all limits by address`,
          'Have the proxy set X-Forwarded-For in place of what the client sent, and name no address in TRUST_PROXY that a client could have.',
        ),
      ];
}

function clientOf({ addresses }: ReachedAs): string {
  return addresses.at(-1) ?? '';
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
