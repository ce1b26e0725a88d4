import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import { METRICS_PATH, NO_METRICS_HERE } from '../../domain/metrics-words.ts';
import type { ListeningPlace, OriginParts } from './reach.ts';

/** The metrics themselves may be long. */
const ANOTHER_PATH = '/';

/**
 * Looks whether metrics are at their place, or can be.
 *
 * @param isServiceHere whether it is this service that listens on this machine: then it has taken the place
 */
export async function checkMetrics(
  { host, port, url }: ListeningPlace,
  isServiceHere: Promise<boolean>,
  { fetch, tryToListen }: Pick<OriginParts, 'fetch' | 'tryToListen'>,
): Promise<Finding[]> {
  const code = await tryToListen(host, port);
  if (code === 'free') {
    return (await isServiceHere)
      ? [
          warning(
            'metrics.absent',
            `The service that runs has no metrics at ${url}`,
            'Restart it with these settings.',
          ),
        ]
      : [note('metrics.free', `Nobody has metrics at ${url}; a service could`)];
  }
  if (code !== 'EADDRINUSE') {
    return [
      problem(
        'metrics.impossible',
        `No service can have metrics at ${url} (${code})`,
        'METRICS_HOST has to be an address of this machine, and a METRICS_PORT below 1024 needs rights that a service should not have.',
      ),
    ];
  }
  const answer = await fetch.request({ method: 'GET', url: `${url}${ANOTHER_PATH}`, headers: {} });
  const isOurs = answer.outcome === 'answered' && answer.text.trim() === NO_METRICS_HERE;
  return [
    isOurs && (await isServiceHere)
      ? ok('metrics.here', `Metrics are at ${url}${METRICS_PATH}`)
      : problem(
          'metrics.taken',
          `Another program listens at ${url}, where metrics are to be: a service does not start`,
          'Give this one another METRICS_PORT, or stop the other (`ss -ltnp` shows it).',
        ),
  ];
}
