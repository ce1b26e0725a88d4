import type { RequestFailureReason } from '../../net/request-failure.ts';
import { redact } from '../../redaction.ts';

export type FindingArea = 'settings' | 'database' | 'clock' | 'mint' | 'relay' | 'origin';

export interface Finding {
  /** A stable id for scripts. docs/operations/doctor.md lists all ids. */
  check: `${FindingArea}.${string}`;
  /** `warning`: everything works, but perhaps not for long or not for all users. */
  level: 'ok' | 'warning' | 'problem';
  /** One sentence, without its full stop. */
  message: string;
  advice: string | null;
}

export function ok(check: Finding['check'], message: string): Finding {
  // The message may contain parts of untrusted responses from mints, relays and other servers.
  return { check, level: 'ok', message: redact(message), advice: null };
}

export function warning(check: Finding['check'], message: string, advice: string): Finding {
  return { ...ok(check, message), level: 'warning', advice };
}

export function problem(check: Finding['check'], message: string, advice: string): Finding {
  return { ...ok(check, message), level: 'problem', advice };
}

export function getUnreachableAdvice(reason: string): string {
  return (
    ADVICE_BY_REASON[reason as RequestFailureReason] ??
    'Try it from this machine with curl. If the host is down, wait until it is up again.'
  );
}

const ADVICE_BY_REASON: Partial<Record<RequestFailureReason, string>> = {
  'forbidden address':
    'Its name resolves to a private address. nutpost does not connect to those (ALLOW_PRIVATE_NETWORKS is for development).',
  'https required': 'Use its https:// address.',
  'forbidden port': 'It must use port 443 or a port above 1023.',
  'name not found':
    'Check the spelling. For mints and relays nutpost asks the name servers in /etc/resolv.conf; it ignores the hosts file.',
  'name servers do not answer':
    'Check the name servers in /etc/resolv.conf, and that the firewall lets port 53 through.',
  'connection refused': 'No server listens there, or a firewall rejects this machine.',
  'bad certificate':
    'Its certificate has expired, is for another name, or is from an authority that Node does not trust (NODE_EXTRA_CA_CERTS adds authorities).',
  'timed out': 'Check that it is up, and that no firewall drops connections from this machine.',
};
