import { hostname } from 'node:os';
import { sql } from 'kysely';
import { type Database, openExistingDatabase } from '../../src/store/database.ts';
import { pause } from '../faults/client.ts';
import type { Site } from '../faults/site.ts';

/** In a storm. */
const RESTS_LAST_MS = 1_500;

/** How a receipt stands with a relay, as the service wrote it down. */
export interface KeptDelivery {
  /** Of the event, hex. */
  receipt: string;
  relay: string;
  state: string;
}

/** What the service wrote down of receipts, read and changed by somebody else. */
export class Outbox {
  readonly #site: Site;

  constructor(site: Site) {
    this.#site = site;
  }

  /**
   * As if the time had passed for which relays and receipts are left alone. An embedded database is
   * changed while no process has it: they are stopped and started again.
   *
   * @returns how many deliveries to each relay were open
   */
  async endRests(): Promise<ReadonlyMap<string, number>> {
    const { location, processes } = this.#site;
    const mustStop = location.kind === 'embedded';
    if (mustStop) {
      await Promise.all(processes.map((each) => each.stop()));
    }
    const open = await this.#with(async ({ db }) => {
      await sql`update relays set rest_until = null`.execute(db);
      const { rows } = await sql<{ relay: string }>`
        update zap_receipt_deliveries set next_try_at = clock_timestamp() where state = 'open'
        returning relay
      `.execute(db);
      return Map.groupBy(rows, ({ relay }) => relay);
    });
    if (mustStop) {
      for (const each of processes) {
        each.start();
      }
      await Promise.all(processes.map((each) => each.ready()));
    }
    return new Map([...open].map(([relay, rows]) => [relay, rows.length]));
  }

  /**
   * Ends rests again and again until the signal, so that much is tried in a short time. Not on an
   * embedded database, which would be stopped for it.
   */
  async keepEndingRests(signal: AbortSignal): Promise<void> {
    while (await pause(RESTS_LAST_MS, signal)) {
      if (this.#site.location.kind === 'postgres') {
        await this.endRests();
      }
    }
  }

  /**
   * As if a process that is dead had been so for long: others may have its mints and its relays. The one
   * process of an embedded database takes them back as it starts.
   */
  async buryProcess(pid: number | null): Promise<void> {
    if (this.#site.location.kind === 'postgres') {
      await this.#with(async ({ db }) => {
        await sql`
          update watch_processes set alive_until = clock_timestamp() - interval '1 second'
          where id like ${`${hostname()}-${pid}-%`}
        `.execute(db);
      });
    }
  }

  /** Every delivery of every receipt; an embedded database is read while no process has it. */
  async deliveries(): Promise<KeptDelivery[]> {
    return await this.#with(async ({ db }) => {
      const { rows } = await sql<KeptDelivery>`
        select receipt, relay, state from zap_receipt_deliveries
      `.execute(db);
      return rows;
    });
  }

  async #with<T>(work: (database: Database) => Promise<T>): Promise<T> {
    const database = await openExistingDatabase(this.#site.location, () => undefined);
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  }
}
