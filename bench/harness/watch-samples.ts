import { setTimeout as delay } from 'node:timers/promises';
import type { FieldCounts } from '../processes/mint-field.ts';
import type { MintField } from './mint-field.ts';
import { type ProcessUsage, processUsage } from './process-usage.ts';
import type { WatchedDatabase } from './watch-database.ts';

const SAMPLE_MS = 1_000;

/** The service, its database and its mints at a moment. All is counted from the service's start. */
export interface Sample {
  seconds: number;
  service: ProcessUsage;
  databaseCpuMs: number;
  mints: FieldCounts;
}

/** Looks at everything once a second. */
export class WatchSampler {
  readonly #servicePid: number;
  readonly #database: WatchedDatabase;
  readonly #field: MintField;
  readonly #startedAt = performance.now();

  constructor(servicePid: number, database: WatchedDatabase, field: MintField) {
    this.#servicePid = servicePid;
    this.#database = database;
    this.#field = field;
  }

  /** @param isEnough asked after each look, with what this call has seen so far */
  async watch(isEnough: (samples: readonly Sample[]) => boolean): Promise<Sample[]> {
    const samples = [await this.#look()];
    while (!isEnough(samples)) {
      await delay(SAMPLE_MS);
      samples.push(await this.#look());
    }
    return samples;
  }

  async #look(): Promise<Sample> {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const service = await processUsage(this.#servicePid);
    if (service === null) {
      throw new Error('the service has ended');
    }
    return {
      seconds,
      service,
      databaseCpuMs: await this.#database.cpuMs(),
      mints: await this.#field.counts(),
    };
  }
}

/** The first and the last of some samples, and the seconds between them. */
export function ends(samples: readonly Sample[]): { first: Sample; last: Sample; seconds: number } {
  const first = samples[0];
  const last = samples.at(-1);
  if (first === undefined || last === undefined) {
    throw new RangeError('there is no sample');
  }
  return { first, last, seconds: last.seconds - first.seconds };
}
