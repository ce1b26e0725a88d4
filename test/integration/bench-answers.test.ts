import { expect, it } from 'vitest';
import { countAskedQuotes, invoiceQuestions } from '../../bench/harness/invoices.ts';
import { paidPage } from '../../bench/harness/paid-quotes.ts';
import { newRecipient } from '../../bench/harness/recipients.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { invoiceFor } from '../helpers/scripted-mint.ts';
import { unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** What a benchmark takes for the answer to a question, and for nobody else's. */

let database: Database;

useDatabase((opened) => {
  database = opened;
});

it("counts an invoice where it is its recipient's, with the amount that this one was asked for", async () => {
  const questions = invoiceQuestions(Array.from({ length: 3 }, newRecipient));
  const [first, second, third] = questions.map(({ pubkey, amountSat }) => ({ pubkey, amountSat }));
  const keep = async (pubkey = '', amountSat = 0, invoiceSat = amountSat) => {
    const request = invoiceFor(invoiceSat * 1_000);
    await new Store(database.db).quotes.insert(unpaidQuote(pubkey, { amountSat, request }));
  };

  await keep(first?.pubkey, first?.amountSat);
  await keep(first?.pubkey, first?.amountSat);
  await keep(second?.pubkey, third?.amountSat);
  await keep(third?.pubkey, third?.amountSat, second?.amountSat);

  const opened = { prepare: async (fill = async (_db: Database['db']) => {}) => fill(database.db) };
  expect(await countAskedQuotes(opened, questions)).toBe(2);
});

it('tells the invoice of each question from those of all others', async () => {
  const questions = invoiceQuestions(Array.from({ length: 1_024 }, newRecipient));
  const begins = questions.map(({ amountSat }) => `{"pr":"lnbc${amountSat * 10}n1p`);

  for (const { expect: text } of questions) {
    expect(begins.filter((answer) => answer.includes(text))).toHaveLength(1);
  }
});

it('tells a page of paid quotes from those of other users, and from other pages', () => {
  const pages = [paidPage(1, 200), paidPage(2, 200), paidPage(1, 200, 1), paidPage(1, 199)];

  expect(new Set(pages).size).toBe(pages.length);
  expect(JSON.parse(paidPage(1, 200)).data.quotes).toHaveLength(50);
  expect(JSON.parse(paidPage(1, 60, 50)).data.quotes).toHaveLength(10);
});
