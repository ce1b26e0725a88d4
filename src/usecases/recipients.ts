import { Refusal } from '../domain/errors.ts';
import { parseRecipient, type RecipientAddress } from '../domain/recipient.ts';
import type { Store } from '../store/store.ts';
import type { StoredUser } from '../store/user-store.ts';

/** A key that can be paid, with the settings that apply to its next payment. */
export interface Recipient {
  /** Hex. */
  pubkey: string;
  /** The purchased name, in lower case; null where there is none. */
  name: string | null;
  /** Normalised. */
  mintUrl: string;
  lockQuotes: boolean;
}

/** What applies to recipients who chose nothing. */
export interface RecipientDefaults {
  mintUrl: string;
  lockQuotes: boolean;
}

type Users = Pick<Store['users'], 'find' | 'findAddressed' | 'findByName' | 'save'>;

/** Finds recipients, by key or by Lightning address. Every key is one, whether we saw it before or not. */
export class Recipients {
  readonly #users: Users;
  readonly #defaults: RecipientDefaults;

  constructor(users: Users, defaults: RecipientDefaults) {
    this.#users = users;
    this.#defaults = defaults;
  }

  /** The recipient with this key (hex), for the key itself: blocked or not. */
  async byPubkey(pubkey: string): Promise<Recipient> {
    return this.#toRecipient(pubkey, await this.#users.find(pubkey));
  }

  /** The owner of a purchased name, given in any case, for others; null where they can find none. */
  async byName(name: string): Promise<Recipient | null> {
    const address = parseRecipient(name);
    return address.kind === 'name' ? this.#find(address) : null;
  }

  /**
   * The recipient that a payer's address names (LUD-16). One who is blocked is refused in the words for
   * one who is unknown.
   *
   * @param user the part before the `@`: an npub or a purchased name, in any case
   * @throws Refusal where nobody can be paid by it
   */
  async byAddress(user: string): Promise<Recipient> {
    const address = parseRecipient(user);
    if (address.kind === 'invalid_npub') {
      throw new Refusal('invalid', 'Invalid recipient.');
    }
    const recipient = address.kind === 'unknown' ? null : await this.#find(address);
    if (recipient === null) {
      throw new Refusal('invalid', 'Recipient unavailable.');
    }
    return recipient;
  }

  /** Saves settings of a key, for its future payments. */
  async save(
    pubkey: string,
    settings: Partial<Pick<Recipient, 'mintUrl' | 'lockQuotes'>>,
  ): Promise<Recipient> {
    return this.#toRecipient(pubkey, await this.#users.save(pubkey, settings));
  }

  async #find(address: Extract<RecipientAddress, { kind: 'pubkey' | 'name' }>) {
    const user =
      address.kind === 'pubkey'
        ? await this.#users.findAddressed(address.pubkey)
        : await this.#users.findByName(address.name);
    return user === null || user.isBlocked ? null : this.#toRecipient(user.pubkey, user);
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
