import { useEffect, useState } from 'preact/hooks';
import { Section } from '../../elements.ts';
import { type Holding, listHoldings, sumEcash, watchHoldings } from '../collect/holdings.ts';
import { link, rich, t } from '../translator.ts';
import type { User } from './api-client.ts';

/** Leads back to the ecash that this browser keeps, and to a purchase of a username that is not finished. */
export function EcashSection({ pubkey }: User) {
  const [holdings, setHoldings] = useState<readonly Holding[]>([]);
  useEffect(() => {
    // Without the database of the browser, there is no ecash.
    const read = () => void listHoldings(pubkey).then(setHoldings, () => undefined);
    read();
    return watchHoldings(read);
  }, [pubkey]);
  const amountSat = sumEcash(holdings);
  const username = holdings.find((holding) => holding.username !== undefined)?.username;
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
