import { bech32 } from '@scure/base';
import { FAULT, type HistoryLine, renderLine } from './history.ts';
import type { Violation } from './referee.ts';
import type { Invoice } from './truth.ts';
import type { World } from './world.ts';

/** Returns the history as lines for people, all of it or what concerns one payment. Empty if there is no such payment. */
export function renderTimeline(world: World, only: string | null): string[] {
  const names = nameIds(world);
  const render = (line: HistoryLine) => renderLine(line, names);
  if (only === null) {
    return world.history.lines.map(render);
  }
  const invoice = world.truth.invoices.find(
    (candidate) =>
      only === candidate.payer ||
      [...idsOf(candidate)].some(([id, name]) => only === id || only === name),
  );
  if (invoice === undefined) {
    return [];
  }
  const { pubkey } = invoice.recipient;
  const wallets = world.wallets.filter(({ key }) => key.pubkey === pubkey);
  const concerns = createFilter(
    [...idsOf(invoice).keys()],
    [invoice.payer, ...wallets.map(({ actor }) => actor.name)],
  );
  return world.history.lines.filter(concerns).map(render);
}

/** Returns the last lines before a violation: those of the payment that it names, and the faults near it. */
export function renderEnd(world: World, { text, atMs }: Violation): string[] {
  const names = nameIds(world);
  const invoice = world.truth.invoices.find((candidate) =>
    containsWord(text, [candidate.payer, ...idsOf(candidate).keys()]),
  );
  const lines = world.history.lines.filter((line) => line.atMs <= atMs);
  const related =
    invoice === undefined
      ? lines
      : lines.filter(createFilter([...idsOf(invoice).keys()], [invoice.payer]));
  const selected = new Set(related.slice(-LINES_OF_PAYMENT));
  const firstMs = [...selected][0]?.atMs ?? 0;
  const faults = lines.filter((line) => line.actor === FAULT && line.atMs >= firstMs);
  for (const line of faults.slice(-LINES_OF_FAULTS)) {
    selected.add(line);
  }
  return lines.filter((line) => selected.has(line)).map((line) => renderLine(line, names));
}

const LINES_OF_PAYMENT = 40;
const LINES_OF_FAULTS = 20;

function createFilter(ids: readonly string[], actors: readonly string[]) {
  return ({ actor, text }: HistoryLine) => actors.includes(actor) || containsWord(text, ids);
}

/** Ids and names are whole words: `payer-1` is not in `payer-12`. */
function containsWord(text: string, words: readonly string[]): boolean {
  const found = new Set(text.match(/[\w-]+/g));
  return words.some((word) => found.has(word));
}

/** Returns the names of all ids, for people. */
export function nameIds(world: World): Map<string, string> {
  const names = new Map<string, string>();
  for (const [index, { pubkey, npub }] of world.recipients.entries()) {
    names.set(pubkey, `recipient-${index}`).set(npub, `recipient-${index}`);
  }
  for (const invoice of world.truth.invoices) {
    for (const [id, name] of idsOf(invoice)) {
      names.set(id, name);
    }
  }
  return names;
}

/** All ids of an invoice, and their names. */
function idsOf({ payer, request, quoteId, verifyPath }: Invoice): Map<string, string> {
  const name = (kind: string) => payer.replace('payer', kind);
  return new Map([
    [request, name('invoice')],
    [quoteId, name('quote')],
    [readPaymentHash(request), name('payment')],
    [verifyPath.split('/').at(-1) ?? '', name('verify')],
  ]);
}

/** Simulated mints write the time (7 words of five bits), and two fields of 52 words, each after a header of 3. */
export function readPaymentHash(request: string): string {
  const { words } = bech32.decode(request as `${string}1${string}`, false);
  return Buffer.from(bech32.fromWords(words.slice(65, 117))).toString('hex');
}
