import type { UnreachableReason } from '../../net/unreachable-reason.ts';

/**
 * What to do where something could not be reached.
 *
 * @param reason of {@link UnreachableReason}; others are answered in general
 */
export function adviceOn(reason: string): string {
  return (
    ADVICE[reason as UnreachableReason] ??
    'Try it from this machine with curl; if it is down, wait for it.'
  );
}

const ADVICE: Partial<Record<UnreachableReason, string>> = {
  'forbidden address':
    'Its name leads to a private address, which this service does not go to (ALLOW_PRIVATE_NETWORKS is for development).',
  'https required': 'Name its https:// address.',
  'forbidden port': 'It has to be on port 443, or on one from 1024 on.',
  'name not found': 'See at the names of hosts, above.',
  'name servers do not answer': 'See at the names of hosts, above.',
  'connection refused': 'Nothing listens there, or a firewall turns this machine away.',
  'bad certificate':
    'Its certificate has expired, is for another name, or is signed by nobody that Node knows (NODE_EXTRA_CA_CERTS adds authorities).',
  'timed out': 'Is it down, or does a firewall drop what leaves this machine?',
};
