import { sql } from 'kysely';
import { MigrationStore } from './database/migration-store.ts';
import { BaseStore, jsonRows } from './database/sql.ts';
import { DatabaseCountsStore } from './metrics/database-counts-store.ts';
import { MintStore } from './mints/mint-store.ts';
import { ArchiveStore } from './operator/archive/archive-store.ts';
import { DoctorStore } from './operator/doctor/doctor-store.ts';
import { NpubcashImportStore } from './operator/import-npubcash/npubcash-import-store.ts';
import { TraceStore } from './operator/trace/trace-store.ts';
import { QuoteEventStore } from './quotes/quote-event-store.ts';
import { QuoteStore } from './quotes/quote-store.ts';
import { WatchedQuoteStore } from './quotes/watched-quote-store.ts';
import { UserStore } from './recipients/user-store.ts';
import { PurchaseStore } from './usernames/purchase-store.ts';
import { TreasuryStore } from './usernames/treasury-store.ts';
import { UsernameStore } from './usernames/username-store.ts';
import { LeaseStore } from './watcher/lease-store.ts';
import { ReceiptDeliveryStore } from './zaps/receipt-delivery-store.ts';
import { ZapReceiptStore } from './zaps/zap-receipt-store.ts';

/** All stores on one database connection, pool or transaction. */
export class Store extends BaseStore {
  readonly quotes = new QuoteStore(this.db);
  readonly watchedQuotes = new WatchedQuoteStore(this.db);
  readonly quoteEvents = new QuoteEventStore(this.db);
  readonly traces = new TraceStore(this.db);
  readonly users = new UserStore(this.db);
  readonly mints = new MintStore(this.db);
  readonly leases = new LeaseStore(this.db);
  readonly migrations = new MigrationStore(this.db);
  readonly usernames = new UsernameStore(this.db);
  readonly purchases = new PurchaseStore(this.db);
  readonly treasury = new TreasuryStore(this.db);
  readonly zapReceipts = new ZapReceiptStore(this.db);
  readonly receiptDeliveries = new ReceiptDeliveryStore(this.db);
  readonly archive = new ArchiveStore(this.db);
  readonly npubcashImport = new NpubcashImportStore(this.db);
  readonly doctor = new DoctorStore(this.db);
  readonly databaseCounts = new DatabaseCountsStore(this.db);

  /** Runs `work` in a transaction, which is rolled back if `work` throws. */
  transaction<T>(work: (tx: TransactionStore) => Promise<T>): Promise<T> {
    return this.db.transaction().execute((tx) => work(new TransactionStore(tx)));
  }

  /** Runs `work`, which may only read, on a snapshot that is taken at its first read. Does not block writers. */
  snapshot<T>(work: (tx: Store) => Promise<T>): Promise<T> {
    return this.db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute((tx) => work(new Store(tx)));
  }

  /** Like {@link transaction}, but also rolls back if `work` returns false. Returns the result of `work`. */
  async tryTransaction(work: (tx: TransactionStore) => Promise<boolean>): Promise<boolean> {
    const rollback = new Error('rollback');
    try {
      await this.transaction(async (tx) => {
        if (!(await work(tx))) {
          throw rollback;
        }
      });
      return true;
    } catch (error) {
      if (error === rollback) {
        return false;
      }
      throw error;
    }
  }
}

/** The stores in a transaction. Changes and notifications take effect together, at commit. */
export class TransactionStore extends Store {
  /** Notifies all listening processes at commit (NOTIFY). Each payload must have less than 8,000 bytes. */
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
