import { cp, mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import { type Database, openExistingDatabase } from '../../src/store/database.ts';
import type { SiteDatabase } from '../faults/site.ts';

/** The embedded database's own folder in the data directory. */
const FILES = 'postgres';

/** A purchase that some run of a process works on, or worked on when it died. */
export interface DrivenPurchase {
  id: string;
  /** The run. */
  driver: string;
  /** Of the token's proofs. */
  ys: string[];
}

/** A purchase that ended well. */
export interface DonePurchase {
  pubkey: string;
  name: string;
  ys: string[];
}

/** A name that is not free. */
export interface KeptName {
  name: string;
  pubkey: string | null;
  status: string;
}

/** A proof of the operator's, still sealed. */
export interface KeptProof {
  y: string;
  amount_sat: number;
  proof: string;
}

/** What the service wrote down, read from its database by somebody else. */
export class Journal {
  readonly #location: SiteDatabase;
  readonly #folder: string;

  /**
   * @param location an embedded database is only read while no process has it
   * @param folder where a copy of it can be made, so that reading mends nothing
   */
  constructor(location: SiteDatabase, folder: string) {
    this.#location = location;
    this.#folder = folder;
  }

  /** The purchases that are being worked on, or were until their process died. */
  async driven(): Promise<DrivenPurchase[]> {
    return await this.#read(async ({ db }) => {
      const { rows } = await sql<DrivenPurchase>`
        select purchase.id, purchase.driver, array_agg(proof.y) as ys
        from username_purchases as purchase
        join username_purchase_proofs as proof on proof.purchase = purchase.id
        where purchase.state = 'open' and purchase.driver is not null
          and purchase.driver_until > clock_timestamp()
        group by purchase.id
      `.execute(db);
      return rows;
    });
  }

  async openCount(): Promise<number> {
    return await this.#read(async ({ db }) => {
      const { rows } = await sql<{ count: number }>`
        select count(*)::int as count from username_purchases where state = 'open'
      `.execute(db);
      return rows[0]?.count ?? 0;
    });
  }

  /** All that is there in the end. */
  async all(): Promise<{ done: DonePurchase[]; names: KeptName[]; treasury: KeptProof[] }> {
    return await this.#read(async ({ db }) => {
      const done = await sql<DonePurchase>`
        select purchase.pubkey, purchase.name, array_agg(proof.y) as ys
        from username_purchases as purchase
        join username_purchase_proofs as proof on proof.purchase = purchase.id
        where purchase.state = 'done'
        group by purchase.id
      `.execute(db);
      const names = await sql<KeptName>`select name, pubkey, status from usernames`.execute(db);
      const treasury = await sql<KeptProof>`
        select y, amount_sat::int as amount_sat, proof from treasury_proofs
      `.execute(db);
      return { done: done.rows, names: names.rows, treasury: treasury.rows };
    });
  }

  async #read<T>(work: (database: Database) => Promise<T>): Promise<T> {
    if (this.#location.kind === 'postgres') {
      return await closing(await openExistingDatabase(this.#location, () => undefined), work);
    }
    const copy = await mkdtemp(path.join(this.#folder, 'copy-'));
    try {
      const files = path.join(this.#location.dataDir, FILES);
      await cp(files, path.join(copy, FILES), { recursive: true });
      const location = { kind: 'embedded', dataDir: copy } as const;
      return await closing(await openExistingDatabase(location, () => undefined), work);
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  }
}

async function closing<T>(
  database: Database,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}
