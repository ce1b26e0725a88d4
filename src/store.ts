import { sql } from 'kysely';
import { MigrationStore } from './database/migration-store.ts';
import { DatabaseStore, jsonRows } from './database/sql.ts';
import { BacklogStore } from './metrics/backlog-store.ts';
import { MintStore } from './mints/mint-store.ts';
import { ArchiveStore } from './operator/archive/archive-store.ts';
import { ExaminationStore } from './operator/doctor/examination-store.ts';
import { NpubcashImportStore } from './operator/import-npubcash/npubcash-import-store.ts';
import { TraceStore } from './operator/trace/trace-store.ts';
import { QuoteEventStore } from './quotes/quote-event-store.ts';
import { QuoteStore } from './quotes/quote-store.ts';
import { QuoteWatchStore } from './quotes/quote-watch-store.ts';
import { UserStore } from './recipients/user-store.ts';
import { PurchaseStore } from './usernames/purchase-store.ts';
import { TreasuryStore } from './usernames/treasury-store.ts';
import { UsernameStore } from './usernames/username-store.ts';
import { LeaseStore } from './watcher/lease-store.ts';
import { ReceiptDeliveryStore } from './zaps/receipt-delivery-store.ts';
import { ZapReceiptStore } from './zaps/zap-receipt-store.ts';

/** Everything that is stored, by what it is about; in a transaction, the same. */
export class Store extends DatabaseStore {
  readonly quotes = new QuoteStore(this.db);
  readonly watch = new QuoteWatchStore(this.db);
  readonly events = new QuoteEventStore(this.db);
  readonly traces = new TraceStore(this.db);
  readonly users = new UserStore(this.db);
  readonly mints = new MintStore(this.db);
  readonly leases = new LeaseStore(this.db);
  readonly migrations = new MigrationStore(this.db);
  readonly usernames = new UsernameStore(this.db);
  readonly purchases = new PurchaseStore(this.db);
  readonly treasury = new TreasuryStore(this.db);
  readonly zapReceipts = new ZapReceiptStore(this.db);
  readonly deliveries = new ReceiptDeliveryStore(this.db);
  readonly archive = new ArchiveStore(this.db);
  readonly npubcash = new NpubcashImportStore(this.db);
  readonly examination = new ExaminationStore(this.db);
  readonly backlog = new BacklogStore(this.db);

  /** Runs `work` in one transaction, which an error rolls back. */
  transaction<T>(work: (tx: TransactionStore) => Promise<T>): Promise<T> {
    return this.db.transaction().execute((tx) => work(new TransactionStore(tx)));
  }

  /** Runs `work`, which only reads, on the database as it is at its first read. Other connections can write meanwhile. */
  snapshot<T>(work: (tx: Store) => Promise<T>): Promise<T> {
    return this.db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute((tx) => work(new Store(tx)));
  }

  /**
   * Runs `work` in one transaction, which is rolled back if it returns false or throws.
   *
   * @returns what `work` returned
   */
  async attempt(work: (tx: TransactionStore) => Promise<boolean>): Promise<boolean> {
    const undone = new Error('undone');
    try {
      await this.transaction(async (tx) => {
        if (!(await work(tx))) {
          throw undone;
        }
      });
      return true;
    } catch (error) {
      if (error === undone) {
        return false;
      }
      throw error;
    }
  }
}

/** A {@link Store} whose changes and notifications happen together at commit, or not at all. */
export class TransactionStore extends Store {
  /**
   * Notifies every listening process, at commit (NOTIFY).
   *
   * @param payloads each shorter than 8,000 bytes, PostgreSQL's bound
   */
  async notify(channel: string, payloads: readonly string[]): Promise<void> {
    if (payloads.length === 0) {
      return;
    }
    const rows = payloads.map((payload) => ({ payload }));
    await sql`
      select pg_notify(${channel}, payload)
      from ${jsonRows(this.db, { payload: 'text' }, rows)} as sent
    `.execute(this.db);
  }
}
