import type { Service } from '../../../src/service.ts';

/** A line of Prometheus' text format: `name{labels} value`. */
const SAMPLE_PATTERN = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;

const LABEL_PATTERN = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export class MetricsScrape {
  readonly text: string;
  readonly #samples: { name: string; labels: Record<string, string>; value: number }[];

  constructor(text: string) {
    this.text = text;
    this.#samples = text.split('\n').flatMap((line) => {
      const [, name = '', labelText = '', value = ''] = SAMPLE_PATTERN.exec(line) ?? [];
      const labels: Record<string, string> = {};
      for (const [, label = '', labelValue = ''] of labelText.matchAll(LABEL_PATTERN)) {
        labels[label] = labelValue;
      }
      return name === '' ? [] : [{ name, labels, value: Number(value) }];
    });
  }

  get metricNames(): Set<string> {
    return new Set(this.#samples.map(({ name }) => name));
  }

  hasSeries(name: string, labelNames: readonly string[]): boolean {
    return this.#samples.some(
      (sample) => sample.name === name && labelNames.every((label) => label in sample.labels),
    );
  }

  /** Returns null if no series has this name and these labels. */
  sumSeries(name: string, labels: Record<string, string> = {}): number | null {
    const matching = this.#samples.filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
    return matching.length === 0 ? null : matching.reduce((sum, { value }) => sum + value, 0);
  }
}

export async function scrapeMetrics({ metricsUrl }: Service): Promise<MetricsScrape> {
  const response = await fetch(metricsUrl ?? '');
  if (response.status !== 200) {
    throw new Error(`the metrics request failed: ${response.status} ${await response.text()}`);
  }
  return new MetricsScrape(await response.text());
}
