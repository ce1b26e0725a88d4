import { type Kysely, sql, type Transaction } from 'kysely';
import { jsonRows } from '../database/dialect.ts';
import { MigrationStore } from '../database/migration-store.ts';
import type { Schema } from '../database/schema.ts';
import { ArchiveStore } from './archive-store.ts';
import { BacklogStore } from './backlog-store.ts';
import { ExaminationStore } from './examination-store.ts';
import { LeaseStore } from './lease-store.ts';
import { MintStore } from './mint-store.ts';
import { NpubcashImportStore } from './npubcash-import-store.ts';
import { PurchaseStore } from './purchase-store.ts';
import { QuoteEventStore } from './quote-event-store.ts';
import { QuoteStore } from './quote-store.ts';
import { QuoteWatchStore } from './quote-watch-store.ts';
import { ReceiptDeliveryStore } from './receipt-delivery-store.ts';
import { TraceStore } from './trace-store.ts';
import { TreasuryStore } from './treasury-store.ts';
import { UserStore } from './user-store.ts';
import { UsernameStore } from './username-store.ts';
import { ZapReceiptStore } from './zap-receipt-store.ts';

/** Everything that is kept, by what it is about; inside a transaction the same shape again. */
export class Store {
  readonly quotes: QuoteStore;
  readonly watch: QuoteWatchStore;
  readonly events: QuoteEventStore;
  readonly traces: TraceStore;
  readonly users: UserStore;
  readonly mints: MintStore;
  readonly leases: LeaseStore;
  readonly migrations: MigrationStore;
  readonly usernames: UsernameStore;
  readonly purchases: PurchaseStore;
  readonly treasury: TreasuryStore;
  readonly zapReceipts: ZapReceiptStore;
  readonly deliveries: ReceiptDeliveryStore;
  readonly examination: ExaminationStore;
  readonly backlog: BacklogStore;
  readonly archive: ArchiveStore;
  readonly npubcash: NpubcashImportStore;
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
    this.quotes = new QuoteStore(db);
    this.watch = new QuoteWatchStore(db);
    this.events = new QuoteEventStore(db);
    this.traces = new TraceStore(db);
    this.users = new UserStore(db);
    this.mints = new MintStore(db);
    this.leases = new LeaseStore(db);
    this.migrations = new MigrationStore(db);
    this.usernames = new UsernameStore(db);
    this.purchases = new PurchaseStore(db);
    this.treasury = new TreasuryStore(db);
    this.zapReceipts = new ZapReceiptStore(db);
    this.deliveries = new ReceiptDeliveryStore(db);
    this.archive = new ArchiveStore(db);
    this.npubcash = new NpubcashImportStore(db);
    this.examination = new ExaminationStore(db);
    this.backlog = new BacklogStore(db);
  }

  /** Runs `work` in one transaction, which an error undoes. */
  transaction<T>(work: (tx: TransactionStore) => Promise<T>): Promise<T> {
    return this.#db.transaction().execute((tx) => work(new TransactionStore(tx)));
  }

  /** Runs `work`, which only reads, on the database as it is at its first read. Other connections can write meanwhile. */
  snapshot<T>(work: (tx: Store) => Promise<T>): Promise<T> {
    return this.#db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute((tx) => work(new Store(tx)));
  }

  /**
   * Runs `work` in one transaction, which is undone where it says false, as an error undoes it.
   *
   * @returns what it said
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
  readonly #tx: Transaction<Schema>;

  constructor(tx: Transaction<Schema>) {
    super(tx);
    this.#tx = tx;
  }

  /**
   * Tells every listening process, at commit (NOTIFY).
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
      from ${jsonRows(this.#tx, { payload: 'text' }, rows)} as sent
    `.execute(this.#tx);
  }
}
