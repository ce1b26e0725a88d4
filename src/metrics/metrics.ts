import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { Counters } from './counters.ts';
import { Gauges, type MetricSources } from './gauges.ts';

/** Default metrics of prom-client that promtool rejects: gauges with the names of counters. */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

export class Metrics {
  readonly counters: Counters;
  readonly #registry = new Registry();
  #gauges: Gauges | null = null;

  /** @param about.ownMints normalised URLs of the operator's mints */
  constructor(about: { version: string; ownMints: readonly string[] }) {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    for (const name of MISNAMED) {
      this.#registry.removeSingleMetric(name);
    }
    const { version } = about;
    new Gauge({
      name: 'nutpost_build_info',
      help: 'The running version.',
      labelNames: ['version'],
      registers,
    }).set({ version }, 1);
    this.counters = new Counters(this.#registry, about.ownMints);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Adds the gauges, once there is something to read them from. */
  watch(sources: MetricSources): void {
    this.#gauges = new Gauges(this.#registry, sources);
  }

  async read(): Promise<string> {
    await this.#gauges?.refresh();
    return this.#registry.metrics();
  }

  /** Resolves when nothing is being read from the database, or after two seconds. */
  async idle(): Promise<void> {
    await this.#gauges?.idle();
  }
}
