import { isIP } from 'node:net';
import { type Finding, ok, problem, warning } from '../../domain/finding.ts';
import type { LookedUp } from '../../net/look-up-name.ts';

/** An answer that takes longer is felt by payers, who wait for several. */
const SLOW_MS = 1_000;

/** Looks up the names of everything that the settings name. */
export async function checkNames(options: {
  /** Of mints and relays, which the service goes to as to strangers. */
  urls: readonly string[];
  /** Where clients find the service. */
  publicOrigins: readonly string[];
  /** In development the hosts file counts. */
  allowPrivateNetworks: boolean;
  lookUpName: (name: string) => Promise<LookedUp>;
}): Promise<Finding[]> {
  const asked = namesIn(options.urls);
  const names = [...new Set([...asked, ...namesIn(options.publicOrigins)])];
  const answers = await Promise.all(
    names.map(async (name) => ({ name, answer: await options.lookUpName(name) })),
  );
  const wrong = answers
    .map(({ name, answer }) => {
      const needsNameServer = asked.includes(name) && !options.allowPrivateNetworks;
      return judge(name, answer, needsNameServer);
    })
    .filter((each) => each !== null);
  const known = answers.filter(({ answer }) => answer.outcome === 'found');
  return wrong.length > 0 || known.length === 0
    ? wrong
    : [ok('names.found', `The name servers know ${known.map(({ name }) => name).join(', ')}`)];
}

function namesIn(urls: readonly string[]): string[] {
  const hosts = urls.map((url) => new URL(url).hostname);
  return hosts.filter((host) => host !== 'localhost' && !isAddress(host));
}

/** @param needsNameServer that this machine's hosts file has it is not enough */
function judge(name: string, answer: LookedUp, needsNameServer: boolean): Finding | null {
  const { tookMs } = answer;
  if (answer.outcome === 'found') {
    return tookMs < SLOW_MS
      ? null
      : warning(
          'names.slow',
          `The addresses of ${name} took ${(tookMs / 1000).toFixed(1)} s to find`,
          'Name a faster server first in /etc/resolv.conf, or run one on this machine.',
        );
  }
  if (answer.isKnownToSystem && !needsNameServer) {
    return null;
  }
  return answer.isKnownToSystem
    ? warning(
        'names.local_only',
        `${name} stands in this machine’s hosts file alone: the service does not find it as a mint or relay`,
        'Have the name servers know it.',
      )
    : problem('names.unknown', `${name}: ${answer.reason}`, adviceOn(answer));
}

function isAddress(host: string): boolean {
  return isIP(host.replace(/^\[|\]$/g, '')) !== 0;
}

function adviceOn({ reason }: Extract<LookedUp, { outcome: 'failed' }>): string {
  return reason === 'name not found'
    ? 'Is it spelled right? Names are asked of the name servers in /etc/resolv.conf, and the hosts file does not count.'
    : 'Look at the name servers in /etc/resolv.conf, and at the firewall for port 53.';
}
