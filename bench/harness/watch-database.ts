import pg from 'pg';
import { decodeUpdates, QUOTE_CHANNEL } from '../../src/notifications/quote-channel.ts';
import { processUsage } from './process-usage.ts';
import { sum } from './statistics.ts';

/** A database that the service is at work on, seen from outside. */
export class WatchedDatabase implements AsyncDisposable {
  readonly #client: pg.Client;
  readonly #heard = new Map<string, PromiseWithResolvers<number>>();
  /** CPU time of each process of the server that was seen at work for the service. */
  readonly #cpuMsByBackend = new Map<number, number>();

  static async open(url: string): Promise<WatchedDatabase> {
    const client = new pg.Client({ connectionString: url });
    const opened = new WatchedDatabase(client);
    await client.connect();
    await client.query(`listen ${pg.escapeIdentifier(QUOTE_CHANNEL)}`);
    return opened;
  }

  private constructor(client: pg.Client) {
    this.#client = client;
    // An 'error' event without a listener would end the process; the next query fails all the same.
    client.on('error', () => undefined);
    client.on('notification', ({ payload = '' }) => {
      const now = performance.now();
      for (const { quoteId } of decodeUpdates(payload)) {
        this.#hearing(quoteId).resolve(now);
      }
    });
  }

  /** When the service first told of a change of the quote (`performance.now()`). */
  toldOf(quoteId: string): Promise<number> {
    return this.#hearing(quoteId).promise;
  }

  /** How many quotes are not `PAID` where they should be, or not `UNPAID`, or not watched. */
  async countWrong(paidIds: readonly string[]): Promise<number> {
    const { rows } = await this.#client.query<{ wrong: number }>(
      `select count(*)::int as wrong from quotes left join unnest($1::text[]) as paid (quote_id)
         using (quote_id)
       where watch_until is null
         or state <> case when paid.quote_id is null then 'UNPAID' else 'PAID' end`,
      [paidIds],
    );
    return rows[0]?.wrong ?? 0;
  }

  /** How many zap receipts are written down. */
  async countReceipts(): Promise<number> {
    const { rows } = await this.#client.query<{ count: number }>(
      'select count(*)::int as count from zap_receipts',
    );
    return rows[0]?.count ?? 0;
  }

  /**
   * CPU time that the server has spent on the service's connections, in milliseconds. What one took
   * between the last call and its end is missed.
   */
  async cpuMs(): Promise<number> {
    const { rows } = await this.#client.query<{ pid: number }>(
      `select pid from pg_stat_activity where application_name like 'nutpost%'`,
    );
    for (const { pid } of rows) {
      const usage = await processUsage(pid);
      if (usage !== null) {
        this.#cpuMsByBackend.set(pid, usage.cpuMs);
      }
    }
    return sum([...this.#cpuMsByBackend.values()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }

  #hearing(quoteId: string): PromiseWithResolvers<number> {
    const hearing = this.#heard.get(quoteId) ?? Promise.withResolvers<number>();
    this.#heard.set(quoteId, hearing);
    return hearing;
  }
}
