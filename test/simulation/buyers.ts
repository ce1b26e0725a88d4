import { decodePaymentRequest } from '@cashu/cashu-ts';
import { ACCEPTABLE_KINDS, createToken, spend, type Token, UNACCEPTABLE_KINDS } from './ecash.ts';
import type { NameSale } from './name-sale.ts';
import { getKey, type NostrKey, signRequest } from './recipients.ts';
import { Actor } from './scheduler.ts';
import { type ClientResponse, ConnectionError } from './simulated-network.ts';

/** One buyer who wants one name for one token. Repeats the request until the response is final. */
export interface Attempt {
  buyer: NostrKey;
  name: string;
  token: Token;
  /** Null: the buyer is not done, or gave up. */
  final: { status: number; code: string | undefined; message: string } | null;
  hasGivenUp: boolean;
}

/** What one or two buyers do with one or two tokens. No other story has the same buyers, tokens or names. */
export interface Story {
  title: Title;
  attempts: Attempt[];
  tokens: Token[];
}

/** The numbers of the buyer, the token and the name of each attempt. */
const STORIES = {
  'a buyer pays once': [[0, 0, 0]],
  'a buyer pays with a token that cannot pay': [[0, 0, 0]],
  'a buyer sends a request twice': [
    [0, 0, 0],
    [0, 0, 0],
  ],
  'two keys race for a name': [
    [0, 0, 0],
    [1, 1, 0],
  ],
  'a buyer races with two tokens': [
    [0, 0, 0],
    [0, 1, 0],
  ],
  'a buyer buys two names': [
    [0, 0, 0],
    [0, 1, 1],
  ],
  'a buyer pays for two names with one token': [
    [0, 0, 0],
    [0, 0, 1],
  ],
  'two keys pay with one token': [
    [0, 0, 0],
    [1, 0, 1],
  ],
  'a buyer gives up': [[0, 0, 0]],
  'a buyer pays somebody else too': [[0, 0, 0]],
} satisfies Record<string, [buyer: number, token: number, name: number][]>;

export type Title = keyof typeof STORIES;

/** Starts what a few buyers do, who have nothing to do with those of other stories. */
export function startStory(sale: NameSale, number: number): Story {
  const { world, random, mint, priceSat } = sale;
  const title = random.pick(Object.keys(STORIES) as Title[]);
  const plan = STORIES[title];
  const others = world.mints.filter((each) => each !== mint);
  const otherMint = others.length === 0 ? mint : random.pick(others);
  const kinds = UNACCEPTABLE_KINDS.filter((each) => others[0] || !each.endsWith('another mint'));
  const cannotPay = title === 'a buyer pays with a token that cannot pay';
  const tokenCount = Math.max(...plan.map(([, token]) => token)) + 1;
  const tokens = Array.from({ length: tokenCount }, () =>
    createToken(random.pick<Token['kind']>(cannotPay ? kinds : ACCEPTABLE_KINDS), {
      priceSat,
      mint,
      otherMint,
      random,
    }),
  );
  for (const { secret } of tokens.flatMap(({ proofs }) => proofs)) {
    world.truth.addSecret(secret);
  }
  const attempts = plan.map(
    ([buyer, token, name]): Attempt => ({
      buyer: getKey(FIRST_KEY + 2 * number + buyer),
      token: tokens[token] as Token,
      name: `name${number}${'ab'[name]}`,
      final: null,
      hasGivenUp: title === 'a buyer gives up',
    }),
  );
  for (const [index, attempt] of attempts.entries()) {
    const actor = new Actor(`buyer-${number}${'ab'[index]}`);
    world.history.add(actor, () => `${title}: ${attempt.name}, ecash ${attempt.token.kind}`);
    world.scheduler.start(actor, () => buy(sale, attempt));
    if (attempt.hasGivenUp) {
      world.scheduler.schedule(random.exponential(100), () => actor.die());
    }
  }
  const [token] = tokens as [Token];
  if (title === 'a buyer pays somebody else too') {
    world.scheduler.schedule(random.exponential(200), () => {
      const isSpent = mint.actor.isAlive && spend(mint, token.proofs, random);
      world.history.add(`buyer-${number}`, () => `pays somebody else too: ${isSpent}`);
    });
  }
  return { title, attempts, tokens };
}

/** Other actors have the keys before it. */
const FIRST_KEY = 50;

async function buy(sale: NameSale, attempt: Attempt): Promise<void> {
  const { world, random } = sale;
  const { scheduler } = world;
  await scheduler.sleep(random.exponential(20));
  if (random.chance(0.2)) {
    await checkPaymentRequest(sale, attempt);
  }
  for (let retry = 0; ; retry += 1) {
    const response = await sendRequest(sale, attempt, { 'x-cashu': attempt.token.text });
    if (response !== null && FINAL_STATUSES.includes(response.status)) {
      const { status, body } = response;
      attempt.final = { status, code: body.code, message: body.message };
      sale.referee.checkResponse(attempt, body);
      return;
    }
    await scheduler.sleep(random.between(0.5, 1) * Math.min(1_000 * 2 ** retry, 60_000));
  }
}

/** After others, wallets repeat the request. */
const FINAL_STATUSES: readonly number[] = [201, 400, 402, 409];

async function checkPaymentRequest(sale: NameSale, attempt: Attempt): Promise<void> {
  const response = await sendRequest(sale, attempt, {});
  if (response?.status === 402) {
    const { amount, unit, mints } = decodePaymentRequest(String(response.headers['x-cashu']));
    const text = JSON.stringify([Number(amount), unit, mints]);
    if (text !== JSON.stringify([sale.priceSat, 'sat', [sale.mint.url]])) {
      sale.world.referee.report('the payment request is right', text);
    }
  }
}

/** Returns null if the connection fails. */
async function sendRequest(
  { world, random }: NameSale,
  { buyer, name }: Attempt,
  headers: Record<string, string>,
): Promise<ClientResponse | null> {
  const path = '/api/v2/user/username';
  const authorization = signRequest(buyer, 'POST', path);
  const request = {
    method: 'POST',
    path,
    headers: { ...headers, authorization },
    body: { username: name },
  } as const;
  try {
    return await world.proxy.request(request, `203.0.113.${random.integer(1, 255)}`);
  } catch (error) {
    if (error instanceof ConnectionError) {
      return null;
    }
    throw error;
  }
}
