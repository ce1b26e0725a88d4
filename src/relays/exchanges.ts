import { Publication, type Query } from './relay-exchange.ts';

/** Events that wait for their OK at a time: at 100 ms there and back, some 300 events a second. */
const MAX_UNANSWERED = 32;

/** Relays allow some twenty subscriptions on a connection; an operator may have others there. */
const MAX_QUERIES = 10;

/** What is asked of a relay on one connection and has not ended, and how far it has come. */
export class Exchanges {
  /** The first one first; events by their id. */
  readonly #unsent = { publications: new Map<string, Publication>(), queries: new Set<Query>() };
  /** By the event's id, and by the subscription's. */
  readonly #sent = {
    publications: new Map<string, Publication>(),
    queries: new Map<string, Query>(),
  };

  get isEmpty(): boolean {
    const all = [...Object.values(this.#unsent), ...Object.values(this.#sent)];
    return all.every(({ size }) => size === 0);
  }

  add(exchange: Publication | Query): void {
    if (exchange instanceof Publication) {
      this.#unsent.publications.set(exchange.id, exchange);
    } else {
      this.#unsent.queries.add(exchange);
    }
  }

  /** What is to be sent now, which counts as sent from then on; null where nothing is, or may be. */
  next(): Publication | Query | null {
    const { publications, queries } = this.#sent;
    const [query] = this.#unsent.queries;
    if (query !== undefined && queries.size < MAX_QUERIES) {
      this.#unsent.queries.delete(query);
      queries.set(query.id, query);
      return query;
    }
    const [publication] = this.#unsent.publications.values();
    if (publication !== undefined && publications.size < MAX_UNANSWERED) {
      this.#unsent.publications.delete(publication.id);
      publications.set(publication.id, publication);
      return publication;
    }
    return null;
  }

  /** An event that is on its way, sent or not. */
  publication(id: string): Publication | undefined {
    return this.#unsent.publications.get(id) ?? this.#sent.publications.get(id);
  }

  isUnsent(publication: Publication): boolean {
    return this.#unsent.publications.get(publication.id) === publication;
  }

  sentPublication(id: string): Publication | undefined {
    return this.#sent.publications.get(id);
  }

  sentQuery(id: string): Query | undefined {
    return this.#sent.queries.get(id);
  }

  /** What was turned away and waits for AUTH. */
  get waiting(): (Publication | Query)[] {
    return this.#allSent().filter(({ isWaiting }) => isWaiting);
  }

  /** Forgets what has ended; false where that was done before. */
  remove(exchange: Publication | Query): boolean {
    if (exchange instanceof Publication) {
      const { id } = exchange;
      const isKnown = this.publication(id) === exchange;
      return (
        isKnown && (this.#sent.publications.delete(id) || this.#unsent.publications.delete(id))
      );
    }
    return this.#sent.queries.delete(exchange.id) || this.#unsent.queries.delete(exchange);
  }

  /** Ends all of it, because nothing more comes. */
  end(reason: string): void {
    for (const publication of this.#unsent.publications.values()) {
      publication.settle({ outcome: 'unreachable', reason });
    }
    for (const exchange of [...this.#allSent(), ...this.#unsent.queries]) {
      exchange.leave();
    }
    for (const group of [...Object.values(this.#unsent), ...Object.values(this.#sent)]) {
      group.clear();
    }
  }

  #allSent(): (Publication | Query)[] {
    return [...this.#sent.publications.values(), ...this.#sent.queries.values()];
  }
}
