import { parseUsername } from '../domain/username.ts';
import { claimOf } from '../domain/username-claim.ts';
import type { KnownUser, SaidOfUser } from '../store/npubcash-import-store.ts';
import type { NpubcashUser } from '../store/npubcash-source.ts';
import type { BringParts } from './bring-npubcash.ts';
import type { LeftOutReason } from './npubcash-report.ts';
import { isWithinReach, KeyReader, readMintUrl } from './read-npubcash.ts';

/** Users whose settings are written in one transaction. */
const USERS_PER_TRANSACTION = 500;

/** A user of npubcash in this service's words. */
interface BroughtUser extends SaidOfUser {
  /** `NpubcashUser.id`. */
  row: number;
}

/** A name that a key has at npubcash. */
interface BroughtName {
  row: number;
  pubkey: string;
  /** In lower case. */
  name: string;
  /** Whether npubcash has it in lower case too. */
  isExact: boolean;
}

/**
 * Brings over who the users of an npubcash server are: what they chose, their names, and who is blocked.
 *
 * What somebody changed here since stays as it is here: npubcash's word counts where it is new, and where
 * it is the only one.
 */
export class BringNpubcashUsers {
  readonly #parts: BringParts & { nameGraceMs: number };
  readonly #keys = new KeyReader();
  /** Names that a dry run would have given. */
  readonly #promised = new Set<string>();
  /** Keys of this server whose name here is the one that it had the last time, and is not bought. */
  readonly #namedAsSaid = new Map<string, string>();
  /** Keys that chose or bought their name here, or gave up the one from there: they get no other. */
  readonly #choseName = new Set<string>();
  /** Keys that have a name there that can be nobody's here. */
  readonly #badlyNamed = new Set<string>();
  /** Keys whose name was taken away because it is theirs there no more. */
  readonly #unnamed = new Set<string>();
  /** Such names that others get. */
  readonly #freed = new Set<string>();

  /** @param parts.nameGraceMs so long nobody else can have a name that its owner left for another */
  constructor(parts: BringParts & { nameGraceMs: number }) {
    this.#parts = parts;
  }

  /** Brings over everything that is new. */
  async run(): Promise<void> {
    await this.#bringBlocks();
    const names = await this.#bringSettings();
    await this.#takeAwayLeftNames(names);
    // Where two keys have one name in two spellings, payers reached the one that has it as it is said.
    names.sort((a, b) => Number(b.isExact) - Number(a.isExact) || a.row - b.row);
    for (const name of names) {
      await this.#bringName(name);
    }
  }

  async #bringBlocks(): Promise<void> {
    const blocked = new Set<string>();
    for await (const blocks of this.#parts.source.blocks()) {
      for (const block of blocks) {
        const pubkey = this.#keys.read(block.pubkey);
        if (pubkey === null) {
          await this.#parts.leaveOut({ table: 'recipient_blocks', id: null, reason: 'bad_pubkey' });
        } else {
          blocked.add(pubkey);
          await this.#bringBlock(pubkey, block.reason, block.createdAtMs ?? this.#parts.clock());
        }
      }
    }
    if (this.#parts.source.hasBlocks) {
      await this.#tellEndedBlocks(blocked);
    }
  }

  /**
   * Whoever was blocked there the last time, and is not any more, stays blocked here until the operator has
   * decided: a wrong database has none of the blocks.
   */
  async #tellEndedBlocks(blocked: ReadonlySet<string>): Promise<void> {
    const said = await this.#parts.store.npubcash.saidToBeBlocked();
    for (const { pubkey, isBlocked } of said.filter((each) => !blocked.has(each.pubkey))) {
      if (isBlocked) {
        const reason = 'unblocked_there';
        await this.#parts.leaveOut({ table: 'recipient_blocks', id: null, reason, pubkey });
      } else if (!this.#parts.isDry) {
        // A block that is made there from now on is a new one.
        await this.#parts.store.npubcash.rememberBlock(pubkey, false);
      }
    }
  }

  /** Whoever was unblocked here stays so. */
  async #bringBlock(pubkey: string, reason: string | null, createdAtMs: number): Promise<void> {
    const known = await this.#know(pubkey);
    if (known.isBlocked || known.said?.isBlocked === true) {
      this.#parts.counts.blocks.unchanged += 1;
      return;
    }
    this.#parts.counts.blocks.added += 1;
    if (!this.#parts.isDry) {
      await this.#parts.store.transaction(async (tx) => {
        await tx.blocks.add(pubkey, reason, createdAtMs);
        await tx.npubcash.rememberBlock(pubkey, true);
      });
    }
  }

  /** @returns the names that users have there */
  async #bringSettings(): Promise<BroughtName[]> {
    const names: BroughtName[] = [];
    let users: BroughtUser[] = [];
    let last = { row: 0, pubkey: '', hasName: false };
    for await (const rows of this.#parts.source.users()) {
      for (const row of rows) {
        const pubkey = this.#keys.read(row.pubkey);
        if (pubkey === null) {
          this.#parts.onRead(1);
          await this.#leaveOutUser(row.id, 'bad_pubkey');
          continue;
        }
        if (last.pubkey === pubkey) {
          this.#parts.onRead(1);
          const reason = 'same_key_twice';
          await this.#parts.leaveOut({ table: 'l_users', id: row.id, reason, instead: last.row });
        } else {
          if (users.length >= USERS_PER_TRANSACTION) {
            await this.#bringBatch(users);
            users = [];
          }
          users.push(await this.#read(row, pubkey));
          last = { row: row.id, pubkey, hasName: false };
        }
        const name = last.hasName ? null : await this.#readName(row, pubkey);
        if (name !== null) {
          last.hasName = true;
          names.push(name);
        }
      }
    }
    await this.#bringBatch(users);
    return names;
  }

  async #read(row: NpubcashUser, pubkey: string): Promise<BroughtUser> {
    const mintUrl = readMintUrl(row.mintUrl);
    const isUsable = mintUrl !== null && isWithinReach(mintUrl, this.#parts.allowHttp);
    if (!isUsable && row.mintUrl !== null && row.mintUrl !== '') {
      await this.#leaveOutUser(row.id, mintUrl === null ? 'bad_mint_url' : 'mint_out_of_reach');
    }
    return {
      row: row.id,
      pubkey,
      mintUrl: isUsable ? mintUrl : null,
      lockQuotes: row.lockQuote ?? false,
    };
  }

  async #readName(row: NpubcashUser, pubkey: string): Promise<BroughtName | null> {
    if (row.name === null || row.name === '') {
      return null;
    }
    const name = parseUsername(row.name);
    if (name === null) {
      this.#badlyNamed.add(pubkey);
      await this.#leaveOutUser(row.id, 'bad_name');
      return null;
    }
    return { row: row.id, pubkey, name, isExact: name === row.name };
  }

  async #bringBatch(users: readonly BroughtUser[]): Promise<void> {
    const pubkeys = users.map(({ pubkey }) => pubkey);
    const { changedHere, namedAsSaid } = this.#parts.isDry
      ? this.#choose(users, await this.#parts.store.npubcash.findUsers(pubkeys))
      : await this.#save(users, pubkeys);
    this.#parts.onRead(users.length);
    for (const [pubkey, name] of namedAsSaid) {
      this.#namedAsSaid.set(pubkey, name);
    }
    for (const row of changedHere) {
      await this.#leaveOutUser(row, 'changed_here');
    }
  }

  /** Who is new is added before the transaction: in it, a payment of that moment could overtake it. */
  async #save(users: readonly BroughtUser[], pubkeys: readonly string[]) {
    const { store } = this.#parts;
    await store.users.makePaymentCounters(pubkeys);
    return store.transaction(async (tx) => {
      await tx.npubcash.queue();
      await tx.users.lockPaymentCounters(pubkeys);
      const choice = this.#choose(users, await tx.npubcash.findUsers(pubkeys));
      await tx.npubcash.saveSettings(choice.settings);
      await tx.npubcash.rememberSettings(users);
      return choice;
    });
  }

  /** Decides which settings are taken over, and counts. */
  #choose(users: readonly BroughtUser[], known: readonly KnownUser[]) {
    const knownByKey = new Map(known.map((each) => [each.pubkey, each]));
    const settings: { pubkey: string; mintUrl: string | null; lockQuotes: boolean | null }[] = [];
    const changedHere: number[] = [];
    for (const user of users) {
      const here = knownByKey.get(user.pubkey) ?? nothingKnown(user.pubkey);
      const mint = settingOf(user.mintUrl, here.mintUrl, here.said?.mintUrl ?? null);
      const lock = settingOf(user.lockQuotes, here.lockQuotes, here.said?.lockQuotes ?? null);
      const isTaken = mint === 'take' || lock === 'take';
      if (mint === 'changed_here' || lock === 'changed_here') {
        changedHere.push(user.row);
      }
      if (isTaken) {
        // Of a key that is blocked there, something was said before.
        this.#parts.counts.users[here.said?.lockQuotes == null ? 'added' : 'changed'] += 1;
        settings.push({
          pubkey: user.pubkey,
          mintUrl: mint === 'take' ? user.mintUrl : null,
          lockQuotes: lock === 'take' ? user.lockQuotes : null,
        });
      } else {
        this.#parts.counts.users.unchanged += 1;
      }
    }
    for (const each of known.filter((one) => !isNamedAsSaid(one))) {
      this.#choseName.add(each.pubkey);
    }
    const namedAsSaid = known.flatMap((each): [string, string][] =>
      each.name !== null && isNamedAsSaid(each) ? [[each.pubkey, each.name]] : [],
    );
    return { settings, changedHere, namedAsSaid };
  }

  /**
   * A name that its owner has there no more is taken away before names are given: without a grace where
   * somebody else has it there and gets it here, otherwise with the grace of names that are left. It stays
   * where the owner has one there instead that cannot be had here, and nobody else has it.
   */
  async #takeAwayLeftNames(names: readonly BroughtName[]): Promise<void> {
    const there = new Map(names.map(({ pubkey, name }) => [pubkey, name]));
    const had = new Set(there.values());
    const wanted = names.filter(({ pubkey }) => !this.#choseName.has(pubkey));
    const given = new Set(wanted.map(({ name }) => name));
    for (const [pubkey, name] of this.#namedAsSaid) {
      const isLeft = there.get(pubkey) !== name && (had.has(name) || !this.#badlyNamed.has(pubkey));
      if (!isLeft || !(await this.#takeAway(name, pubkey, given.has(name)))) {
        continue;
      }
      if (given.has(name)) {
        this.#freed.add(name);
      }
      this.#unnamed.add(pubkey);
      // With another name, the key is counted where it gets that.
      this.#parts.counts.names.changed += there.has(pubkey) ? 0 : 1;
    }
  }

  /**
   * @param atOnce whether others can have it from now on
   * @returns false where the key gave it up at this moment, or paid for it
   */
  async #takeAway(name: string, pubkey: string, atOnce: boolean): Promise<boolean> {
    if (this.#parts.isDry) {
      return true;
    }
    return this.#parts.store.transaction(async (tx) => {
      await tx.users.lockPaymentCounters([pubkey]);
      const [known] = await tx.npubcash.findUsers([pubkey]);
      if (known?.name !== name || known.hasBoughtName) {
        return false;
      }
      await tx.npubcash.rememberName(pubkey, null);
      return atOnce
        ? tx.usernames.takeAway(name)
        : tx.usernames.abandon(name, this.#parts.clock(), this.#parts.nameGraceMs);
    });
  }

  /**
   * A name that its owner gave up here, or that the operator took away, is not given again; and one that
   * was bought here is not left for another.
   */
  async #bringName({ row, pubkey, name }: BroughtName): Promise<void> {
    const known = await this.#know(pubkey);
    const saidBefore = known.said?.name ?? null;
    if (known.name === name || saidBefore === name) {
      this.#parts.counts.names.unchanged += 1;
      if (saidBefore !== name && !this.#parts.isDry) {
        await this.#parts.store.npubcash.rememberName(pubkey, name);
      }
      return;
    }
    if (!isNamedAsSaid(known)) {
      await this.#leaveOutUser(row, 'has_another_name');
    } else if (await this.#take(name, pubkey)) {
      const hadAnother = saidBefore !== null || this.#unnamed.has(pubkey);
      this.#parts.counts.names[hadAnother ? 'changed' : 'added'] += 1;
    } else {
      await this.#leaveOutUser(row, 'name_taken');
    }
  }

  /** Names that nobody can buy are no exception: whoever has one there is known by it. */
  async #take(name: string, pubkey: string): Promise<boolean> {
    const nowMs = this.#parts.clock();
    if (this.#parts.isDry) {
      const claim = claimOf(await this.#parts.store.usernames.find(name), pubkey, nowMs);
      const isFree = claim === 'free' || claim === 'yours_again' || this.#freed.has(name);
      const isGiven = isFree && !this.#promised.has(name);
      this.#promised.add(name);
      return isGiven;
    }
    const claim = { pubkey, nowMs, graceMs: this.#parts.nameGraceMs };
    return this.#parts.store.attempt(async (tx) => {
      await tx.npubcash.rememberName(pubkey, name);
      return tx.usernames.take(name, claim);
    });
  }

  async #know(pubkey: string): Promise<KnownUser> {
    const [known] = await this.#parts.store.npubcash.findUsers([pubkey]);
    return known ?? nothingKnown(pubkey);
  }

  #leaveOutUser(id: number, reason: LeftOutReason): Promise<void> {
    return this.#parts.leaveOut({ table: 'l_users', id, reason });
  }
}

/**
 * What becomes of a setting. It is taken where nobody chose anything here since npubcash last said what it
 * was; where somebody did, and npubcash has another word than then, that word is left out.
 */
function settingOf<Value>(
  there: Value | null,
  here: Value | null,
  saidBefore: Value | null,
): 'take' | 'keep' | 'changed_here' {
  if (there === null || there === here || there === saidBefore) {
    return 'keep';
  }
  return here === saidBefore ? 'take' : 'changed_here';
}

/** Whether the name of a key, or that it has none, is npubcash's word alone. */
function isNamedAsSaid({ name, hasBoughtName, said }: KnownUser): boolean {
  return name === (said?.name ?? null) && !hasBoughtName;
}

function nothingKnown(pubkey: string): KnownUser {
  const chosen = { name: null, mintUrl: null, lockQuotes: null };
  return { pubkey, ...chosen, isBlocked: false, hasBoughtName: false, said: null };
}
