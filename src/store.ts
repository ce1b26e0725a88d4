import { BaseStore } from './database/sql.ts';
import { notify, snapshot, type Tx, transaction, tryTransaction } from './database/transaction.ts';

/** All stores on one database connection, pool or transaction. */
export class Store extends BaseStore {
  /** See `database/transaction.ts`. Until the last feature has functions instead of a store. */
  transaction<T>(work: (tx: TransactionStore) => Promise<T>): Promise<T> {
    return transaction(this.db, (tx) => work(new TransactionStore(tx)));
  }

  snapshot<T>(work: (tx: Store) => Promise<T>): Promise<T> {
    return snapshot(this.db, (tx) => work(new Store(tx)));
  }

  tryTransaction(work: (tx: TransactionStore) => Promise<boolean>): Promise<boolean> {
    return tryTransaction(this.db, (tx) => work(new TransactionStore(tx)));
  }
}

/** The stores in a transaction. */
export class TransactionStore extends Store {
  readonly tx: Tx;

  constructor(tx: Tx) {
    super(tx);
    this.tx = tx;
  }

  notify(channel: string, payloads: readonly string[]): Promise<void> {
    return notify(this.tx, channel, payloads);
  }
}
