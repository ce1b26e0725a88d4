import { getDecodedToken } from '@cashu/cashu-ts';
import type { Attempt, Story, Title } from './buyers.ts';
import type { NameSale } from './name-sale.ts';
import { type NostrKey, signRequest } from './recipients.ts';
import { Actor } from './scheduler.ts';
import { ConnectionError } from './simulated-network.ts';

/**
 * Compares the names that the service shows with the mint's books. For each token, either its name was sold and the
 * treasury has its value, or the token is unspent and the name free.
 */
export class MoneyReferee {
  readonly #sale: NameSale;

  constructor(sale: NameSale) {
    this.#sale = sale;
  }

  /** A final response to a buyer. */
  // biome-ignore lint/suspicious/noExplicitAny: of the service
  checkResponse({ name, final }: Attempt, body: any): void {
    if (final?.status === 201 && body.data.user.name === undefined) {
      this.#report('the response shows the name', name);
    }
  }

  /** Call this when no purchase is open. */
  async checkAll(): Promise<void> {
    for (const story of this.#sale.stories) {
      await this.#checkStory(story);
    }
    await this.#checkTreasury();
  }

  async #checkStory(story: Story): Promise<void> {
    const { title, attempts, tokens } = story;
    const { mint, world } = this.#sale;
    const { swaps } = mint;
    const redeemed = tokens.filter(({ proofs }) => {
      const isRedeemed = ({ secret }: { secret: string }) =>
        swaps.some(({ secrets }) => secrets.includes(secret));
      return proofs.some(isRedeemed);
    });
    const sold = await this.#listSold(story);
    const text = () => describe(story, redeemed.length, sold);
    if (sold.length !== redeemed.length) {
      this.#report('a name for each token', text());
    }
    for (const attempt of attempts) {
      const isSold = sold.some((each) => isSamePair(each, attempt));
      const isPaid = attempts.some(
        (each) => isSamePair(each, attempt) && redeemed.includes(each.token),
      );
      const ofPair = attempts.filter((each) => isSamePair(each, attempt));
      const isRejected = ofPair.every(({ final }) => final !== null && final.status !== 201);
      if (isSold && !isPaid) {
        this.#report('names are paid', text());
      }
      if (attempt.final?.status === 201 ? !isSold : isSold && isRejected) {
        this.#report('responses are true', text());
      }
      if (attempt.final === null && !attempt.hasGivenUp) {
        this.#report('buyers get a final response', text());
      }
    }
    const isUsed = sold.length + redeemed.length > 0;
    // The mint redeems locked ecash as any other.
    if (title === 'a buyer pays with a token that cannot pay' && isUsed) {
      this.#report('tokens that cannot pay are rejected', text());
    }
    const expected = title === 'a buyer buys two names' ? 2 : 1;
    if (this.#mustSell(story) && sold.length < expected) {
      this.#report('who can pay gets a name', text());
    }
    world.history.add('referee', text);
  }

  /** Returns the attempts whose buyer has their name, one for each name. */
  async #listSold(story: Story): Promise<Attempt[]> {
    const { attempts } = story;
    const sold: Attempt[] = [];
    const unshown: string[] = [];
    for (const name of new Set(attempts.map((attempt) => attempt.name))) {
      const { names } = await this.#read(`/.well-known/nostr.json?name=${name}`);
      const { data } = await this.#read(`/api/v2/names/${name}`);
      const owner = attempts.find(
        (each) => each.name === name && each.buyer.pubkey === names[name],
      );
      if (owner !== undefined) {
        sold.push(owner);
        const user = await this.#read('/api/v2/user/info', owner.buyer);
        if (user.data.user.name !== name || data.available) {
          this.#report('all show the same owner', `${name}: ${JSON.stringify([user, data])}`);
        }
      } else if (names[name] !== undefined) {
        this.#report('names are paid', `${name} belongs to ${names[name]}`);
      } else if (!data.available) {
        unshown.push(name);
      }
    }
    for (const name of unshown) {
      // The buyer has bought another name since then, so this one is reserved for the buyer.
      const attempt = attempts.find((each) => each.name === name) as Attempt;
      if (sold.some(({ buyer }) => buyer === attempt.buyer)) {
        sold.push(attempt);
      } else {
        this.#report('names that are not sold are free', describe(story, 0, sold));
      }
    }
    return sold;
  }

  #mustSell({ title, attempts }: Story): boolean {
    const { world, mint, priceSat } = this.#sale;
    const { keysets } = mint.state.ledger;
    return (
      !MAY_BUY_NOTHING.includes(title) &&
      attempts.every(({ hasGivenUp }) => !hasGivenUp) &&
      // Tokens of old keys may expire, or cost more than they are worth.
      !world.faults.has('mint rotates keysets') &&
      (priceSat > 1 || keysets.calculateFeeSat(attempts[0]?.token.proofs ?? []) === 0)
    );
  }

  /** Withdraws all that is left, and compares all withdrawn tokens with the mint's books. */
  async #checkTreasury(): Promise<void> {
    const { world, mint, withdrawnTokens } = this.#sale;
    const { ledger } = mint.state;
    const run = (...args: string[]) => this.#sale.runTreasuryCommand(new Actor('auditor'), args);
    for (let token = await run('withdraw'); token; token = await run('withdraw')) {
      withdrawnTokens.push(token);
    }
    const { withdrawals } = JSON.parse((await run('withdrawals', '--json')) ?? '{}');
    const tokens = new Set<string>();
    const secrets = new Set<string>();
    let withdrawnSat = 0;
    let proofCount = 0;
    for (const { id } of withdrawals) {
      const text = (await run('token', id)) ?? '';
      tokens.add(text);
      const keysetIds = ledger.keysets.listSummaries().map((keyset) => keyset.id);
      const proofs = getDecodedToken(text, keysetIds).proofs.map((proof) => ({
        ...proof,
        amount: proof.amount.toNumber(),
      }));
      for (const { amount, secret } of proofs) {
        secrets.add(secret);
        world.truth.addSecret(secret);
        withdrawnSat += amount;
        proofCount += 1;
      }
      this.#checkProofs(proofs);
    }
    const redeemedSat = mint.swaps.reduce((sum, { amountSat }) => sum + amountSat, 0);
    if (withdrawnSat !== redeemedSat || secrets.size !== proofCount) {
      this.#report(
        'the treasury has what was redeemed',
        `${withdrawnSat} of ${redeemedSat} sat, ${secrets.size} of ${proofCount} proofs`,
      );
    }
    if (
      new Set(withdrawnTokens).size !== withdrawnTokens.length ||
      withdrawnTokens.some((token) => !tokens.has(token))
    ) {
      this.#report('each withdrawal is stored', withdrawnTokens.join(' '));
    }
    for (const other of world.mints) {
      if (other !== mint && other.swaps.length > 0) {
        this.#report('ecash of one mint is redeemed', other.host);
      }
    }
  }

  #checkProofs(proofs: Parameters<SimulatedLedger['beginSwap']>[0]): void {
    try {
      this.#sale.mint.state.ledger.beginSwap(proofs, []);
    } catch (error) {
      // The mint has verified the proofs before it looked at the outputs, of which there are none.
      if (!/not balanced|Keyset has expired/.test(String(error))) {
        this.#report('the mint accepts the ecash of the treasury', String(error));
      }
    }
  }

  /** Reads as a client that repeats failed requests. @param key signs the request */
  // biome-ignore lint/suspicious/noExplicitAny: of the service
  async #read(path: string, key?: NostrKey): Promise<any> {
    const { proxy, scheduler } = this.#sale.world;
    for (;;) {
      const headers = key && { authorization: signRequest(key, 'GET', path) };
      try {
        const { status, body } = await proxy.request(
          { path, ...(headers && { headers }) },
          '203.0.113.1',
        );
        if (status === 200 && body.error !== true) {
          return body;
        }
      } catch (error) {
        if (!(error instanceof ConnectionError)) {
          throw error;
        }
      }
      await scheduler.sleep(1_000);
    }
  }

  #report(rule: string, text: string): void {
    this.#sale.world.referee.report(rule, text);
  }
}

const MAY_BUY_NOTHING: readonly Title[] = [
  'a buyer pays with a token that cannot pay',
  'a buyer pays somebody else too',
];

type SimulatedLedger = NameSale['mint']['state']['ledger'];

function isSamePair(one: Attempt, other: Attempt): boolean {
  return one.buyer === other.buyer && one.name === other.name;
}

function describe({ title, attempts }: Story, redeemed: number, sold: Attempt[]): string {
  const parts = attempts.map(({ name, token, final }) => {
    const response = final === null ? 'no response' : `${final.status} ${final.message ?? ''}`;
    return `${name} (${token.kind}): ${response}`;
  });
  return `${title}: ${parts.join('; ')}; ${redeemed} tokens redeemed, ${sold.length} names sold`;
}
