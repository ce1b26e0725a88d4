import { useEffect, useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import {
  findBegunPurchase,
  type Holding,
  listHoldings,
  sumEcash,
  watchHoldings,
} from '../collect/holdings.ts';
import { link, rich, t } from '../translator.ts';
import type { User } from './api-client.ts';

/** Longer than a browser takes to read what it keeps. The account page is not shown before. */
const MAX_WAIT_MS = 500;

/** Returns the ecash that this browser keeps; null until it is known, or the browser does not answer. */
export function useHoldings(pubkey: string): readonly Holding[] | null {
  const [holdings, setHoldings] = useState<readonly Holding[] | null>(null);
  useEffect(() => {
    const read = () =>
      // Without the database of the browser, there is no ecash.
      void listHoldings(pubkey).then(setHoldings, () => setHoldings((known) => known ?? []));
    read();
    // The database of some browsers never answers.
    const timer = setTimeout(() => setHoldings((known) => known ?? []), MAX_WAIT_MS);
    const stopWatching = watchHoldings(read);
    return () => {
      clearTimeout(timer);
      stopWatching();
    };
  }, [pubkey]);
  return holdings;
}

/** Returns how much ecash this browser keeps, in sats; 0 if it does not answer. */
export async function countEcash(pubkey: string): Promise<number> {
  const noAnswer = new Promise<[]>((resolve) => setTimeout(resolve, MAX_WAIT_MS, []));
  return sumEcash(await Promise.race([listHoldings(pubkey).catch(() => []), noAnswer]));
}

/** Leads back to the ecash that this browser keeps, and to a purchase of a username that is not finished. */
export function EcashSection({ name, holdings }: User & { holdings: readonly Holding[] }) {
  const amountSat = sumEcash(holdings);
  const username = findBegunPurchase(holdings, name);
  return amountSat === 0 && username === undefined ? null : (
    <Section title={t('account.inBrowser')}>
      {amountSat > 0 && <p>{t('account.ecashKept', { amount: amountSat })}</p>}
      {username !== undefined && (
        <p>{rich('account.purchaseBegun', { name: <strong>{username}</strong> })}</p>
      )}
      <p>
        <a class="button" href={link('/collect', username)}>
          {t(username === undefined ? 'account.showEcash' : 'account.continue')}
        </a>
      </p>
    </Section>
  );
}
