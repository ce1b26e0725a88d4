import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { InvoiceActions, Section } from '../../elements.ts';
import type { User } from '../account/api-client.ts';
import { useNowMs } from '../account/collect-within.tsx';
import { Problem, Status, useAction, useLoaded } from '../account/elements.tsx';
import { sendToTabs } from '../account/tabs.ts';
import type { AccountSession } from '../account/use-session.ts';
import {
  describeSuccess,
  readNameInLink,
  readPaymentRequest,
  requestUsername,
} from '../account/username-request.ts';
import { formatTime, link, rich, t } from '../translator.ts';
import {
  findBegunPurchase,
  type Holding,
  isUnfinished,
  isUnpaid,
  listHoldings,
  sumEcash,
} from './holdings.ts';
import { formatMint } from './mint-problem.ts';
import { encodeToken } from './mint-wallet.ts';
import { OtherWallet } from './other-wallet.tsx';
import { useFocusAfterRemoval } from './use-focus-after-removal.ts';
import type { WalletState } from './use-wallet.ts';

interface Info {
  features: { username: { payment?: { amount: number; mints: string[] } } };
}

type PaymentMethod = 'lightning' | 'ecash' | 'other_wallet';

/** Buys the username in the link, or the one that an earlier page began to buy. */
export function UsernamePurchase({ api, user, wallet }: AccountSession & { wallet: WalletState }) {
  const info = useLoaded(() => api.request<Info>('/api/v2/info'), [api]);
  const terms = info.data?.data.features.username.payment;
  const { amount: priceSat = 0, mints: [mintUrl = ''] = [] } = terms ?? {};
  const { tokens, invoices } = wallet;
  useFocusAfterRemoval();
  // The invoice may expire.
  useNowMs();
  const nameInLink = readNameInLink();
  /** Stays when the token is spent, and with it the outcome. */
  const shownName = useRef(parseName(nameInLink));
  if (nameInLink === '') {
    shownName.current ||= findBegunPurchase(wallet.holdings, user.name) ?? '';
  }
  const name = shownName.current;
  const [success, setSuccess] = useState<string | null>(null);
  const outcome = success ?? (name === user.name ? t('account.nameIsYours') : null);
  /** For another wallet. */
  const [request, setRequest] = useState<string | null>(null);

  const canPay = (holding: Holding) =>
    holding.username !== undefined && holding.mintUrl === mintUrl && holding.amountSat === priceSat;
  const token = tokens.find(canPay);
  const ownInvoices = invoices.filter(({ username }) => username === name);
  const invoice =
    token === undefined ? ownInvoices.find((each) => canPay(each) && !isExpired(each)) : undefined;

  /** Whether it is a payment for this name. A token that is being taken back has no quote. */
  const isForName = ({ quoteId, username }: Holding) => quoteId !== undefined && username === name;

  const finish = (owner: User) => {
    setSuccess(describeSuccess(name, owner));
    sendToTabs({ type: 'user_changed', user: owner });
  };
  const pay = async (method: PaymentMethod) => {
    // Nobody pays for a name that is not available.
    const answer = await requestUsername(api, name, null).catch(readPaymentRequest);
    if (typeof answer !== 'string') {
      finish(answer);
      return;
    }
    if (method === 'other_wallet') {
      setRequest(answer);
      return;
    }
    // Another tab may have begun to pay while this one waited.
    const begun = (await listHoldings(user.pubkey)).filter(canPay);
    const readyToken = begun.find((holding) => holding.isToken && !isUnfinished(holding));
    if (method === 'lightning') {
      const isBegun = begun.some((holding) => isForName(holding) && !isExpired(holding));
      if (readyToken === undefined && !isBegun) {
        const purpose = { username: name, ...(user.name && { replacedName: user.name }) };
        await wallet.withMint(mintUrl, (mint) => mint.createInvoice(priceSat, purpose));
      }
      return;
    }
    const used =
      readyToken ??
      (await wallet.withMint(mintUrl, (mint) => mint.createToken(priceSat, { username: name })));
    finish(await requestUsername(api, name, encodeToken(used)).finally(() => void wallet.finish()));
  };
  // Only one tab sends the token of an invoice that two have awaited. The other one then learns who owns the name.
  const { isRunning, problem, run } = useAction(
    (method: PaymentMethod) =>
      navigator.locks.request(`username ${user.pubkey}`, () => pay(method)),
    { payment_required: 'collect.tokenRefused' },
  );

  const awaitedIds = useRef(new Set<string>());
  const arriving = wallet.unfinished.filter(isForName);
  [...ownInvoices, ...arriving].forEach(({ id }) => void awaitedIds.current.add(id));
  useEffect(() => {
    // Once: a token that could not be taken back is a token again, but not to be sent.
    const isAwaited = token !== undefined && awaitedIds.current.delete(token.id);
    // The invoice was paid, and has become a token. The payment may be so late that the user has bought another name.
    if (isAwaited && user.name === token.replacedName) {
      void run('ecash');
    }
  }, [token?.id]);

  if (name === '' && nameInLink !== '') {
    return (
      <Section title={t('account.usernameTitle')}>
        <Problem text={t('account.nameInvalid')} />
        <OtherName />
      </Section>
    );
  }
  if (name === '' || (terms === undefined && info.problem === null)) {
    return null;
  }
  const balanceSat = sumEcash(wallet.spendable.filter((holding) => holding.mintUrl === mintUrl));
  const canChoose = (token ?? invoice ?? arriving[0]) === undefined;
  const mintProblem =
    invoice !== undefined && wallet.problems[0] !== undefined ? wallet.problems.join(' ') : null;
  const price = <strong>{t('sats', { amount: priceSat })}</strong>;
  const button = (method: PaymentMethod, label: string) => (
    <button
      type="button"
      class={method === 'other_wallet' ? 'secondary' : ''}
      aria-disabled={isRunning}
      onClick={() => void run(method)}
    >
      {label}
    </button>
  );
  return (
    <Section title={t('collect.buyName', { address: `${name}@${location.host}` })}>
      <Status text={outcome} />
      <Problem text={info.problem} onRetry={info.reload} />
      {outcome === null && terms !== undefined && (
        <>
          {token !== undefined && <p>{t('collect.tokenForName')}</p>}
          {invoice !== undefined && <Invoice {...invoice} price={price} />}
          {token === undefined && arriving.length > 0 && (
            <p>{rich('collect.arriving', { amount: price, mint: formatMint(mintUrl) })}</p>
          )}
          {canChoose && ownInvoices.length > 0 && <p>{t('collect.invoiceExpired')}</p>}
          {canChoose && <p>{rich('collect.namePrice', { price })}</p>}
          {user.name !== undefined && <p>{t('collect.replacesName', { name: user.name })}</p>}
          <p class="row">
            {token !== undefined && button('ecash', t('account.buy'))}
            {(canChoose || invoice !== undefined) &&
              balanceSat >= priceSat &&
              button('ecash', t('collect.payWithEcash'))}
            {canChoose && button('lightning', t('collect.payWithLightning'))}
            {canChoose && request === null && button('other_wallet', t('account.otherWallet'))}
            <OtherName />
          </p>
          <p role="status">{isRunning && t('account.buying')}</p>
          <Problem text={problem ?? mintProblem} />
        </>
      )}
      {request !== null && (
        <OtherWallet
          request={request}
          price={price}
          mintUrl={mintUrl}
          isBought={outcome !== null}
          buy={async (pasted) => finish(await requestUsername(api, name, pasted))}
        />
      )}
    </Section>
  );
}

function Invoice({ invoice, price }: Partial<Holding> & { price: VNode }) {
  const { request = '', expiresAtMs = 0 } = invoice ?? {};
  return (
    <>
      <p>{rich('collect.payInvoice', { price })}</p>
      <InvoiceActions request={request} t={t} />
      <p class="hint">{t('collect.invoiceExpires', { time: formatTime(expiresAtMs) })}</p>
    </>
  );
}

function OtherName() {
  return (
    <a class="button secondary" href={link('/account')}>
      {t('collect.otherName')}
    </a>
  );
}

/** Anybody can write the text in the link. */
function parseName(text: string): string {
  return /^(?!npub1)[a-z0-9]{3,64}$/i.test(text) ? text.toLowerCase() : '';
}

/** Whether it is an invoice that must not be paid any more. */
function isExpired(holding: Holding): boolean {
  return isUnpaid(holding) && (holding.invoice?.expiresAtMs ?? 0) <= Date.now();
}
