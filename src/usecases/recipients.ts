import { Refusal } from '../domain/errors.ts';
import { parseRecipient, type RecipientAddress } from '../domain/recipient.ts';
import type { Soon } from '../domain/soon.ts';
import type { Store } from '../store/store.ts';
import type { AddressedUser, StoredUser } from '../store/user-store.ts';
import { KeptUntilTold, type KeptUntilToldParts } from './kept-until-told.ts';

/**
 * Far more addresses than are paid within {@link LIFE_MS}; some 8 MB, and as much again with what is written of
 * them.
 */
const MAX_KEPT = 10_000;

/**
 * A change that was not told, as with triggers switched off, is seen after this: money goes to the wrong mint for no
 * longer.
 */
const LIFE_MS = 60_000;

/** A key that can be paid, with the settings that apply to its next payment. */
export interface Recipient {
  /** Hex. */
  readonly pubkey: string;
  /** The purchased name, in lower case; null where there is none. */
  readonly name: string | null;
  /** Normalised. */
  readonly mintUrl: string;
  readonly lockQuotes: boolean;
}

/** What applies to recipients who chose nothing. */
export interface RecipientDefaults {
  mintUrl: string;
  lockQuotes: boolean;
}

type Users = Pick<Store['users'], 'find' | 'findAddressed' | 'findByName' | 'save'>;

/** A recipient as payers find them, all in one: what is looked at seldom is in no processor's cache. */
interface Addressed extends Recipient {
  /** Whom the address says that it names, which never changes. */
  readonly address: RecipientAddress;
  readonly isBlocked: boolean;
}

/**
 * Finds recipients, by key or by Lightning address. Every key is one, whether we saw it before or not.
 *
 * What payers' addresses stand for is kept until a change is told. The key's own questions are answered
 * by the database, and payers are not told anything older after that.
 */
export class Recipients {
  readonly #users: Users;
  readonly #defaults: RecipientDefaults;
  /**
   * By the address as it was written, so that neither its check nor the database is asked again. About a key
   * and a name: a name goes from one key to another.
   */
  readonly #addressed: KeptUntilTold<string, Addressed>;

  constructor(
    users: Users,
    defaults: RecipientDefaults,
    hearing: Pick<KeptUntilToldParts<string, Addressed>, 'isHearing' | 'monotonicMs'>,
  ) {
    this.#users = users;
    this.#defaults = defaults;
    this.#addressed = new KeptUntilTold({
      ...hearing,
      subjectsOf: ({ pubkey, name }) => (name === null ? [pubkey] : [pubkey, name]),
      // Addresses, names and the urls of mints are short.
      canKeep: () => true,
      max: MAX_KEPT,
      lifeMs: LIFE_MS,
    });
  }

  /** The recipient with this key (hex), for the key itself: blocked or not. */
  async byPubkey(pubkey: string): Promise<Recipient> {
    return this.#shown(this.#toRecipient(pubkey, await this.#users.find(pubkey)));
  }

  /** The owner of a purchased name, given in any case, for others; null where they can find none. */
  async byName(name: string): Promise<Recipient | null> {
    const address = parseRecipient(name);
    if (address.kind !== 'name') {
      return null;
    }
    const found = await this.#addressed.get(name, () => this.#find(address));
    return found === null || found.isBlocked ? null : found;
  }

  /**
   * The recipient that a payer's address names (LUD-16), at once where that is kept. One who is blocked is
   * refused in the words for one who is unknown.
   *
   * @param user the part before the `@`: an npub or a purchased name, in any case
   * @returns what fails with a Refusal where nobody can be paid by it
   */
  byAddress(user: string): Soon<Recipient> {
    const found = this.#addressed.get(user, (old) =>
      // The check of a key costs as much as asking the database.
      this.#find(old?.address ?? parseRecipient(user)),
    );
    return found instanceof Promise || found === null || found.isBlocked ? payable(found) : found;
  }

  /** Saves settings of a key, for its future payments. */
  async save(
    pubkey: string,
    settings: Partial<Pick<Recipient, 'mintUrl' | 'lockQuotes'>>,
  ): Promise<Recipient> {
    try {
      return this.#shown(this.#toRecipient(pubkey, await this.#users.save(pubkey, settings)));
    } finally {
      // Where it fails, too: they may have been saved, and the answer lost.
      this.#addressed.forget(pubkey);
    }
  }

  /** Told that what addresses of a key (hex) stand for has changed; null: of any. */
  changed(pubkey: string | null): void {
    if (pubkey === null) {
      this.#addressed.forgetAll();
    } else {
      this.#addressed.forget(pubkey);
    }
  }

  /** What a key is shown of itself: payers are told nothing older from now on, by whatever address. */
  #shown(recipient: Recipient): Recipient {
    this.#addressed.forget(recipient.pubkey);
    if (recipient.name !== null) {
      this.#addressed.forget(recipient.name);
    }
    return recipient;
  }

  /** @throws Refusal where the address is an npub of nobody */
  async #find(address: RecipientAddress): Promise<Addressed | null> {
    const user = await this.#findUser(address);
    return (
      user && {
        ...this.#toRecipient(user.pubkey, user),
        address,
        isBlocked: user.isBlocked,
      }
    );
  }

  async #findUser(address: RecipientAddress): Promise<AddressedUser | null> {
    switch (address.kind) {
      case 'invalid_npub':
        throw new Refusal('invalid', 'Invalid recipient.');
      case 'unknown':
        return null;
      case 'name':
        return this.#users.findByName(address.name);
      case 'pubkey':
        return this.#users.findAddressed(address.pubkey);
    }
  }

  #toRecipient(pubkey: string, user: StoredUser | null): Recipient {
    return {
      pubkey,
      name: user?.name ?? null,
      mintUrl: user?.mintUrl ?? this.#defaults.mintUrl,
      lockQuotes: user?.lockQuotes ?? this.#defaults.lockQuotes,
    };
  }
}

/** @throws Refusal where it is nobody, or somebody who is blocked */
async function payable(coming: Soon<Addressed | null>): Promise<Recipient> {
  const found = await coming;
  if (found === null || found.isBlocked) {
    throw new Refusal('invalid', 'Recipient unavailable.');
  }
  return found;
}
