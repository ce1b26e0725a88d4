import type { Service } from '../../src/service.ts';

/** A line of Prometheus' text format: `name{labels} value`. */
const SAMPLE_PATTERN = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;

const LABEL_PATTERN = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** One response of the metrics endpoint. */
export class Scrape {
  readonly text: string;
  readonly #samples: { name: string; labels: Record<string, string>; value: number }[];

  constructor(text: string) {
    this.text = text;
    this.#samples = text.split('\n').flatMap((line) => {
      const [, name = '', labels = '', value = ''] = SAMPLE_PATTERN.exec(line) ?? [];
      const pairs = [...labels.matchAll(LABEL_PATTERN)].map(([, label = '', said = '']) => [
        label,
        said,
      ]);
      return name === '' ? [] : [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
    });
  }

  get metricNames(): Set<string> {
    return new Set(this.#samples.map(({ name }) => name));
  }

  /** Returns whether a series has this name and these label names, whatever their values. */
  hasSeries(name: string, labels: readonly string[]): boolean {
    return this.#samples.some(
      (sample) => sample.name === name && labels.every((label) => label in sample.labels),
    );
  }

  /** Returns the sum of the series with these labels; null if none exists. */
  sumSeries(name: string, labels: Record<string, string> = {}): number | null {
    const found = this.#samples.filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
    return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0);
  }
}

export async function scrapeMetrics({ metricsUrl }: Service): Promise<Scrape> {
  const response = await fetch(metricsUrl ?? '');
  if (response.status !== 200) {
    throw new Error(`no metrics: ${response.status} ${await response.text()}`);
  }
  return new Scrape(await response.text());
}
