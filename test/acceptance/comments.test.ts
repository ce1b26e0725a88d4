import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { invoiceField } from '../helpers/invoice-field.ts';
import { chooseMint, giveOwnMint } from '../helpers/own-mint.ts';
import { startBeside } from '../helpers/second-service.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { sdkOf } from '../helpers/wallet-sdk.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** Comments of payers (LUD-12). */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

describe('a comment', () => {
  it.each([
    ['plain words', 'Thank you!'],
    ['any letters', 'Grüße 🥜 "quoted" \\ %41 + & = # <b>\n\tline'],
    ['blanks around it', '  for you '],
  ])('is in the recipient’s list as it was written: %s', async (_case, comment) => {
    const wallet = world.newWallet();
    await receive(wallet, `comment=${encodeURIComponent(comment)}`);
    expect(await wallet.listQuotes()).toMatchObject([{ comment, amount: 21 }]);
    expect(await sdkOf(wallet).getAllQuotes()).toMatchObject([{ amount: 21, state: 'PAID' }]);
  });

  it('may be written like a form', async () => {
    const wallet = world.newWallet();
    await receive(wallet, new URLSearchParams({ comment: '1 + 1' }).toString());
    expect(await wallet.listQuotes()).toMatchObject([{ comment: '1 + 1' }]);
  });

  it('is the first of several: no payment fails for that', async () => {
    const wallet = world.newWallet();
    await receive(wallet, 'comment=one&comment=two');
    expect(await wallet.listQuotes()).toMatchObject([{ comment: 'one' }]);
  });

  it.each(['', 'comment', 'comment=', 'comment=%20+%0A'])(
    'is none where it is “%s”',
    async (query) => {
      const wallet = world.newWallet();
      await receive(wallet, query);
      const [quote] = await wallet.listQuotes();
      expect(quote).not.toHaveProperty('comment');
      expect(quote).not.toHaveProperty('zapRequest');
    },
  );

  it('has as many characters as discovery says, however many bytes they have', async () => {
    const wallet = world.newWallet();
    const { commentAllowed } = (await ask(wallet, '')).body;
    expect(commentAllowed).toBe(255);
    const longest = '🥜'.repeat(commentAllowed);
    const { body } = await ask(wallet, `amount=21000&comment=${encodeURIComponent(longest)}`);
    expect(await keptComments(wallet)).toEqual([longest]);
    expect(body.pr).toEqual(expect.any(String));
  });

  it.each<[string, string, RegExp]>([
    ['one character more', '🥜'.repeat(256), /^The comment must have at most 255 characters\.$/],
    ['a whole book', 'x'.repeat(50_000), /^The comment must have at most 255 characters\.$/],
    ['what no database keeps', 'a\0b', /^The comment must not have NUL characters\.$/],
  ])('is refused with %s, and no mint is asked', async (_case, comment, reason) => {
    const wallet = world.newWallet();
    const before = world.mint.requestCounts[CREATE_QUOTE];
    const { status, body } = await ask(
      wallet,
      `amount=21000&comment=${encodeURIComponent(comment)}`,
    );
    expect({ status, body }).toEqual({
      status: 200,
      body: { status: 'ERROR', reason: expect.stringMatching(reason) },
    });
    expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
    expect(await keptComments(wallet)).toEqual([]);
  });

  it('of any bytes costs no payment', async () => {
    const wallet = world.newWallet();
    const { body } = await ask(wallet, 'amount=21000&comment=%FF%ED%A0%80%');
    expect(body.pr).toEqual(expect.any(String));
  });
});

describe('an operator', () => {
  it('decides how long comments may be', async () => {
    const asked = await beside({ MAX_COMMENT_LENGTH: '3' });
    const wallet = world.newWallet();
    expect((await asked(wallet, '')).body.commentAllowed).toBe(3);
    expect((await asked(wallet, 'amount=21000&comment=1234')).body.reason).toMatch(/at most 3 /);
    await asked(wallet, 'amount=21000&comment=123');
    expect(await keptComments(wallet)).toEqual(['123']);
  });

  it('who takes none announces nothing, and payments with one are as good as without', async () => {
    const asked = await beside({ MAX_COMMENT_LENGTH: '0' });
    const wallet = world.newWallet();
    expect((await asked(wallet, '')).body).not.toHaveProperty('commentAllowed');
    expect((await asked(wallet, 'amount=21000&comment=a%00b')).body.pr).toEqual(expect.any(String));
    expect(await keptComments(wallet)).toEqual([null]);
  });
});

describe('a mint that refuses the words it said it would take', () => {
  it('is asked once more without them, and the comment is kept', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet, { description: true });
    mint.switches.description = false;
    const { body } = await ask(wallet, 'amount=21000&comment=thanks');
    expect(invoiceField(body.pr, 'description')).toBe('');
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(2);
    expect(await keptComments(wallet)).toEqual(['thanks']);
  });

  it.each([400, 422, 500])(
    'with status %i stops neither that payer nor others, and is offered no such words again',
    async (status) => {
      const [talkative, quiet] = [world.newWallet(), world.newWallet()];
      const mint = await giveOwnMint(talkative, {
        refusesWords: { longerThanBytes: 128, status },
      });
      await chooseMint(quiet, mint.url);
      const long = `amount=21000&comment=${'x'.repeat(200)}`;
      const answers = await Promise.all([
        ask(talkative, long),
        ask(quiet, 'amount=21000&comment=thanks'),
      ]);
      const invoices = answers.map(({ body }) => invoiceField(body.pr, 'description'));
      expect(invoices).toEqual(['', 'thanks']);
      expect(mint.requestCounts[CREATE_QUOTE]).toBe(3);
      expect(await keptComments(talkative)).toEqual(['x'.repeat(200)]);

      expect(invoiceField((await ask(talkative, long)).body.pr, 'description')).toBe('');
      const { body } = await ask(quiet, 'amount=21000&comment=hello');
      expect(invoiceField(body.pr, 'description')).toBe('hello');
      expect(mint.requestCounts[CREATE_QUOTE]).toBe(5);
    },
  );

  it('gives as many invoices as it allows, and not half as many', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet, { description: true, rateLimit: { perMinute: 20 } });
    mint.switches.description = false;
    for (let invoices = 0; invoices < 19; invoices += 1) {
      expect((await ask(wallet, 'amount=21000')).body.pr).toEqual(expect.any(String));
    }
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(20);
  });

  it('is asked only once more where it refuses for another reason', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet, { description: true });
    mint.switches.mintDisabled = true;
    expect((await ask(wallet, 'amount=21000')).status).toBe(500);
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(2);
  });

  it('is asked once where there were no words to refuse', async () => {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet, { description: false });
    mint.switches.mintDisabled = true;
    expect((await ask(wallet, 'amount=21000&comment=thanks')).status).toBe(500);
    expect(mint.requestCounts[CREATE_QUOTE]).toBe(1);
  });
});

function pathOf(wallet: TestWallet, query: string): string {
  return `/.well-known/lnurlp/${wallet.npub}?${query}`;
}

function ask(wallet: TestWallet, query: string): Promise<ApiAnswer> {
  return request(world.base, pathOf(wallet, query));
}

/** How to ask another service, for as long as the test runs. */
async function beside(env: Record<string, string>): Promise<typeof ask> {
  const service = await startBeside(world, env);
  onTestFinished(() => service.stop());
  return (wallet, query) => request(service.url, pathOf(wallet, query));
}

/** A payment's whole way, until the recipient's wallet hears of it. */
async function receive(wallet: TestWallet, query: string): Promise<void> {
  const socket = await wallet.openSocket();
  const { body } = await ask(wallet, `amount=21000&${query}`);
  world.mint.pay(body.pr);
  await socket.next();
  await socket.close();
}

async function keptComments(wallet: TestWallet): Promise<(string | null)[]> {
  const kept = await world.database.db
    .selectFrom('quotes')
    .select('comment')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  return kept.map(({ comment }) => comment);
}
