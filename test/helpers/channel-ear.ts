import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { onTestFinished } from 'vitest';
import type { Database } from '../../src/store/database.ts';

/** Listens to a channel of a database until the test ends. */
export class ChannelEar {
  readonly #database: Database;
  readonly #channel: string;
  #payloads: string[] = [];
  #wake = () => {};

  static async open(database: Database, channel: string): Promise<ChannelEar> {
    const ear = new ChannelEar(database, channel);
    const listening = await database.listen({
      channels: {
        [channel]: (payload) => {
          ear.#payloads.push(payload);
          ear.#wake();
        },
      },
      // The mark of `heard` shows that nothing was missed.
      onGap: () => undefined,
      clock: Date.now,
    });
    onTestFinished(() => listening.close());
    return ear;
  }

  private constructor(database: Database, channel: string) {
    this.#database = database;
    this.#channel = channel;
  }

  /** Every payload that was committed since the last call, in order. */
  async heard(): Promise<string[]> {
    // Payloads come in the order of commits: with the mark, all before it have come.
    const mark = randomUUID();
    await sql`select pg_notify(${this.#channel}, ${mark})`.execute(this.#database.db);
    while (!this.#payloads.includes(mark)) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const payloads = this.#payloads.slice(0, this.#payloads.indexOf(mark));
    this.#payloads = this.#payloads.slice(payloads.length + 1);
    return payloads;
  }
}
