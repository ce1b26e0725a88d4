import type { UnreachableReason } from '../../net/unreachable-reason.ts';

/** The part of the setup that a finding is about. */
export type FindingArea = 'settings' | 'database' | 'clock' | 'mint' | 'relay' | 'origin';

/**
 * How much a finding matters. `ok`: as it should be. `warning`: it works, but perhaps not for long or not for
 * everybody. `problem`: something does not work.
 */
export type FindingLevel = 'ok' | 'warning' | 'problem';

/** One result of `nutpost doctor`. */
export interface Finding {
  /** For scripts: it does not change when the text does. docs/operations/doctor.md lists all of them. */
  check: `${FindingArea}.${string}`;
  level: FindingLevel;
  /** One sentence, without its full stop. */
  what: string;
  /** What the operator can do about it; null if nothing needs to be done. */
  advice: string | null;
}

/** Creates a finding of something that is as it should be. */
export function ok(check: Finding['check'], what: string): Finding {
  return { check, level: 'ok', what, advice: null };
}

/** Creates a finding of something that works, but perhaps not for long or not for everybody. */
export function warning(check: Finding['check'], what: string, advice: string): Finding {
  return { check, level: 'warning', what, advice };
}

/** Creates a finding of something that does not work. */
export function problem(check: Finding['check'], what: string, advice: string): Finding {
  return { check, level: 'problem', what, advice };
}

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
