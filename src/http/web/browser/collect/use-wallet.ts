import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApiClient } from '../account/api-client.ts';
import { listPages, type Payment, type Summary } from '../account/payments.ts';
import type { AccountSession } from '../account/use-session.ts';
import { ExplainedError } from '../explained-error.ts';
import { t } from '../translator.ts';
import {
  type Holding,
  isSpendable,
  isUnfinished,
  isUnpaid,
  listCollectedQuotes,
  listHoldings,
  toQuoteKey,
  watchHoldings,
} from './holdings.ts';
import { describeMintProblem } from './mint-problem.ts';
import { describePayment, type MadePayment, MintWallet } from './mint-wallet.ts';

/** Tokens and payments are looked up after this time, then after twice as long each time: some mints limit requests. */
const FIRST_LOOK_MS = 5_000;
const MAX_LOOK_MS = 300_000;

/** Instead of 2, while the user pays an invoice. Nutshell answers 20 requests about a quote, then none before a quiet minute. */
const INVOICE_LOOK_GROWTH = 1.25;

export type WalletState = ReturnType<typeof useWallet>;

/** What the user can collect, and the ecash that this browser keeps. */
export function useWallet({ api, user: { pubkey } }: AccountSession) {
  const [quotes, setQuotes] = useState<readonly Payment[]>([]);
  const [stored, setStored] = useState({
    holdings: [] as readonly Holding[],
    collected: new Set<string>(),
  });
  /** Why interrupted requests could not be finished. */
  const [problems, setProblems] = useState<readonly string[]>([]);
  /** Describes the latest payment whose outcome was looked up. */
  const [outcome, setOutcome] = useState<string | null>(null);

  const readStored = async () =>
    setStored({
      holdings: await listHoldings(pubkey),
      collected: await listCollectedQuotes(),
    });
  const readQuotes = async () => {
    await readStored();
    setQuotes(await listWaitingQuotes(api));
  };
  useEffect(() => watchHoldings(() => void readStored()), []);

  /** Throws with a sentence for the user. */
  const runAt = async <Result>(
    mintUrl: string,
    action: (wallet: MintWallet) => Promise<Result>,
  ) => {
    try {
      return await action(new MintWallet(pubkey, mintUrl));
    } catch (error) {
      throw new ExplainedError(await describeMintProblem(error, mintUrl));
    }
  };

  const { holdings, collected } = stored;
  const waiting = quotes.filter(
    ({ state, mintUrl, quoteId }) =>
      state === 'PAID' && !collected.has(toQuoteKey(mintUrl, quoteId)),
  );
  const collectable = waiting.filter(({ locked }) => !locked);
  const waitingKeys = new Set(collectable.map((quote) => toQuoteKey(quote.mintUrl, quote.quoteId)));
  const unfinished = holdings.filter(
    (holding) => isUnfinished(holding) && !waitingKeys.has(holding.id),
  );
  const tokens = holdings.filter((holding) => holding.isToken && !isUnfinished(holding));
  const invoices = holdings.filter(isUnpaid);

  const open = [...unfinished, ...tokens, ...invoices];

  const showOutcome = (payment: MadePayment | null) =>
    setOutcome(payment === null ? t('collect.interrupted') : describePayment(payment));
  const finish = async () => {
    const found = listMints(open).map(async (mintUrl) => {
      const ids = open.filter((each) => each.mintUrl === mintUrl).map(({ id }) => id);
      return await runAt(mintUrl, (wallet) => wallet.refresh(new Set(ids), showOutcome)).then(
        () => [],
        (error: Error) => [error.message],
      );
    });
    setProblems((await Promise.all(found)).flat());
  };
  const latestFinish = useRef(finish);
  latestFinish.current = finish;
  const openIds = open.map(({ id }) => id).join();
  useEffect(() => {
    if (openIds === '') {
      return undefined;
    }
    const growth = invoices.length > 0 ? INVOICE_LOOK_GROWTH : 2;
    let lookMs = FIRST_LOOK_MS;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      timer = setTimeout(look, lookMs);
      lookMs = Math.min(lookMs * growth, MAX_LOOK_MS);
      // A mint may refuse an invoice that was paid, but not collected before it expires.
      if (!document.hidden || invoices.length > 0) {
        void latestFinish.current();
      }
    };
    const onVisibilityChange = () => {
      if (!document.hidden) {
        lookMs = FIRST_LOOK_MS;
        look();
      }
    };
    look();
    document.addEventListener('visibilitychange', onVisibilityChange);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisibilityChange);
    };
  }, [openIds]);

  const collect = async () => {
    const results = await Promise.allSettled(
      listMints(collectable).map((mintUrl) => {
        const list = collectable.filter((quote) => quote.mintUrl === mintUrl);
        return runAt(mintUrl, (wallet) => wallet.collect(list));
      }),
    );
    await readStored();
    const failures = results.filter((result) => result.status === 'rejected');
    if (failures.length > 0) {
      throw new ExplainedError(failures.map(({ reason }) => reason.message).join(' '));
    }
  };
  return {
    collectable,
    locked: waiting.filter(({ locked }) => locked),
    refused: holdings.filter(
      ({ id, problem, invoice }) => problem !== undefined && (invoice ?? waitingKeys.has(id)),
    ),
    invoices,
    holdings,
    spendable: holdings.filter(isSpendable),
    unfinished,
    tokens,
    problems,
    outcome,
    readQuotes,
    collect,
    finish: () => latestFinish.current(),
    /** Runs an action of the user, after which an earlier outcome would be misleading. */
    withMint: <Result>(...action: Parameters<typeof runAt<Result>>) => {
      setOutcome(null);
      return runAt(...action);
    },
  };
}

export function listMints(items: readonly { mintUrl: string }[]): string[] {
  return [...new Set(items.map(({ mintUrl }) => mintUrl))];
}

/** Reads the list until it contains all payments that wait. If the server has not counted all, reads the whole list. */
async function listWaitingQuotes(api: ApiClient): Promise<Payment[]> {
  const { data: summary } = await api.request<Summary>('/api/v2/wallet/summary');
  const waiting = new Map<string, Payment>();
  const isComplete = () => summary.complete && waiting.size >= summary.waiting.payments;
  if (isComplete()) {
    return [];
  }
  for await (const { quotes } of listPages(api)) {
    for (const quote of quotes.filter(({ state }) => state !== 'ISSUED')) {
      waiting.set(toQuoteKey(quote.mintUrl, quote.quoteId), quote);
    }
    if (isComplete()) {
      break;
    }
  }
  return [...waiting.values()];
}
