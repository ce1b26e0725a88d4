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

/** Returns the ecash of a key that this browser keeps; null until it is known, or the browser does not answer. */
export function useHoldings(pubkey: string | undefined): readonly Holding[] | null {
  const [holdings, setHoldings] = useState<readonly Holding[] | null>(null);
  useEffect(() => {
    setHoldings(null);
    if (pubkey === undefined) {
      return undefined;
    }
    const read = () => void listHoldings(pubkey).then(setHoldings, () => setHoldings([]));
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
