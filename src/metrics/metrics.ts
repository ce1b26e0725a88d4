import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { type MetricSources, Standings } from './standings.ts';
import { Tallies } from './tallies.ts';

/** Of what prom-client gathers by itself: gauges that are named like counters, and promtool says so. */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

/** The metrics of this process, as Prometheus reads them. */
export class Metrics {
  readonly tallies: Tallies;
  readonly #registry = new Registry();
  #standings: Standings | null = null;

  /** @param about.ownMints normalised urls of the mints that the operator has named */
  constructor(about: { version: string; ownMints: readonly string[] }) {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    for (const name of MISNAMED) {
      this.#registry.removeSingleMetric(name);
    }
    const { version } = about;
    new Gauge({
      name: 'nutpost_build_info',
      help: 'The version that runs.',
      labelNames: ['version'],
      registers,
    }).set({ version }, 1);
    this.tallies = new Tallies(this.#registry, about.ownMints);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** From now on it is also told how things stand. */
  watch(sources: MetricSources): void {
    this.#standings = new Standings(this.#registry, sources);
  }

  /** Everything, in Prometheus' text format. */
  async read(): Promise<string> {
    await this.#standings?.refresh();
    return this.#registry.metrics();
  }

  /** Resolves when nothing is read from the database any more, or it does not answer. */
  async idle(): Promise<void> {
    await this.#standings?.idle();
  }
}
