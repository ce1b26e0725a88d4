import type { UnreachableReason } from '../../net/unreachable-reason.ts';

/**
 * Returns what an operator can do about a host that cannot be reached.
 *
 * @param reason an {@link UnreachableReason}; for anything else the advice is general
 */
export function adviceOn(reason: string): string {
  return (
    ADVICE[reason as UnreachableReason] ??
    'Try it from this machine with curl; if the host is down, wait until it is up again.'
  );
}

const ADVICE: Partial<Record<UnreachableReason, string>> = {
  'forbidden address':
    'Its name resolves to a private address, to which nutpost does not connect (ALLOW_PRIVATE_NETWORKS is for development).',
  'https required': 'Use its https:// address.',
  'forbidden port': 'It must use port 443, or a port from 1024 on.',
  'name not found':
    'Check the spelling. For mints and relays nutpost asks the name servers in /etc/resolv.conf; it ignores the hosts file.',
  'name servers do not answer':
    'Check the name servers in /etc/resolv.conf, and that the firewall lets port 53 through.',
  'connection refused': 'Nothing listens there, or a firewall rejects this machine.',
  'bad certificate':
    'Its certificate has expired, is for another name, or is from an authority that Node does not trust (NODE_EXTRA_CA_CERTS adds authorities).',
  'timed out': 'Check that it is up, and that no firewall drops connections from this machine.',
};
