import './limit-responses.ts';
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { validateAmount } from '../../amount.ts';
import { CopyableText, Section } from '../../elements.ts';
import { CollectWithin, isPastDeadline, useNowMs } from '../account/collect-within.tsx';
import { Button, FieldForm, Problem, Status, useAction, useLoaded } from '../account/elements.tsx';
import { followTabs } from '../account/tabs.ts';
import { type AccountSession, useSession } from '../account/use-session.ts';
import { readNameInLink } from '../account/username-request.ts';
import { getElement } from '../common.ts';
import { ExplainedError } from '../explained-error.ts';
import { formatTime, link, rich, t } from '../translator.ts';
import type { Holding } from './holdings.ts';
import { offerPayment } from './lightning.ts';
import { formatMint } from './mint-problem.ts';
import { describePayment, encodeToken, type PaymentOffer } from './mint-wallet.ts';
import { TokenQrCode } from './token-qr-code.tsx';
import { useFocusAfterRemoval } from './use-focus-after-removal.ts';
import { listMints, useWallet, type WalletState } from './use-wallet.ts';
import { UsernamePurchase } from './username-purchase.tsx';

/** Of an invoice or an address, in characters. */
const MAX_SHOWN_LENGTH = 100;

function Page() {
  const { session, isLoading, problem, reload } = useSession();
  useEffect(() => {
    if (!isLoading && session === null && problem === null) {
      location.replace(`${link('/account', readNameInLink())}#collect`);
    }
  }, [isLoading]);
  return (
    <>
      {/* As on the page of the server. */}
      <h1>{t(readNameInLink() === '' ? 'collect.title' : 'account.getUsername')}</h1>
      <Problem text={problem} onRetry={reload} />
      <Problem text={isSecureContext ? null : t('collect.needsHttps')} />
      {isSecureContext && session && <Wallet {...session} />}
      {isSecureContext && !session && problem === null && (
        <p class="loading">{t('account.loading')}</p>
      )}
    </>
  );
}

function Wallet(session: AccountSession) {
  const wallet = useWallet(session);
  useFocusAfterRemoval();
  /** Not in the list of tokens, which a token leaves while it is taken back. */
  const takeBack = useAction((token: Holding) =>
    wallet.withMint(token.mintUrl, (mint) => mint.takeBack(token)),
  );
  const [user, setUser] = useState(session.user);
  const { spendable, unfinished, tokens } = wallet;
  /** A mint stays when its ecash is spent, and with it the outcome of the payment. */
  const shownMints = useRef<string[]>([]);
  shownMints.current = [...new Set([...shownMints.current, ...listMints(spendable)])];
  const hasEcash = spendable.length + unfinished.length > 0;
  useEffect(() => {
    globalThis.onbeforeunload = hasEcash ? (event) => event.preventDefault() : null;
  }, [hasEcash]);
  useEffect(() => {
    const leave = () => {
      globalThis.onbeforeunload = null;
      location.replace(link('/account'));
    };
    return followTabs(session.user, setUser, leave);
  }, []);
  return (
    <>
      <UsernamePurchase {...session} user={user} wallet={wallet} />
      <WaitingSection wallet={wallet} />
      <Section title={t('account.inBrowser')}>
        <p>{t('collect.inBrowserText')}</p>
        {spendable.length === 0 && <p class="hint">{t('collect.empty')}</p>}
        {shownMints.current.map((mintUrl) => (
          <MintBalance key={mintUrl} mintUrl={mintUrl} wallet={wallet} />
        ))}
        <Unfinished wallet={wallet} />
        <Status text={wallet.outcome} />
        <Problem text={takeBack.problem} />
      </Section>
      {tokens.length > 0 && (
        <Section title={t('collect.tokensTitle')}>
          <p>{t('collect.tokensText')}</p>
          <ul class="payments">
            {tokens.map((token) => (
              <TokenItem
                key={token.id}
                token={token}
                isDisabled={takeBack.isRunning}
                onTakeBack={() => void takeBack.run(token)}
              />
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

interface WalletProps {
  wallet: WalletState;
}

function WaitingSection({ wallet }: WalletProps) {
  const { collectable, locked, refused } = wallet;
  useNowMs();
  useFocusAfterRemoval();
  const list = useLoaded(wallet.readQuotes, []);
  const { isRunning, problem, run } = useAction(async () => {
    // Without this, the browser may delete the ecash when the disk is full.
    void navigator.storage.persist();
    await wallet.collect();
  });
  useEffect(() => {
    const refresh = () => document.hidden || void wallet.readQuotes().catch(() => undefined);
    document.addEventListener('visibilitychange', refresh);
    // A click on a notification also chooses a page that is visible in another window.
    addEventListener('focus', refresh);
    return () => {
      document.removeEventListener('visibilitychange', refresh);
      removeEventListener('focus', refresh);
    };
  }, []);
  const isLoading = list.data === null && list.problem === null;
  const waiting = [...collectable, ...locked];
  const overdue = waiting.filter(isPastDeadline);
  const deadlines = waiting
    .filter((payment) => !isPastDeadline(payment))
    .flatMap(({ collectBy }) => collectBy ?? []);
  return (
    <Section title={t('collect.waiting')}>
      <p class="total">
        {isLoading ? '…' : t('sats', { amount: sum(collectable.map(({ amount }) => amount)) })}
      </p>
      <p class="hint breakable">
        {isLoading && t('account.readingPayments')}
        {!isLoading && collectable.length === 0 && t('collect.nothingWaiting')}
        {collectable.length > 0 &&
          t('collect.waitingAt', {
            count: collectable.length,
            mints: listMints(collectable).map(formatMint).join(', '),
          })}
      </p>
      {deadlines.length > 0 && <CollectWithin collectBy={Math.min(...deadlines)} />}
      {overdue.length > 0 && (
        <p class="problem">
          {t('collect.deadlinePassed', { amount: sum(overdue.map(({ amount }) => amount)) })}
        </p>
      )}
      {(isRunning || collectable.length > 0) && (
        <p>
          <button
            type="button"
            aria-busy={isRunning}
            aria-disabled={isRunning}
            onClick={() => void run()}
          >
            {t(isRunning ? 'collect.collecting' : 'collect.title')}
          </button>
        </p>
      )}
      <Problem text={list.problem} onRetry={list.reload} />
      <Problem text={problem} />
      {refused.map(({ id, mintUrl, amountSat, problem: reason = '' }) => (
        <p key={id} class="problem">
          {t('collect.refusedPayment', { mint: formatMint(mintUrl), amount: amountSat, reason })}
        </p>
      ))}
      {locked.length > 0 && (
        <p>{t('collect.locked', { amount: sum(locked.map(({ amount }) => amount)) })}</p>
      )}
    </Section>
  );
}

function MintBalance({ wallet, mintUrl }: WalletProps & { mintUrl: string }) {
  const [amount, setAmount] = useState('');
  const [destination, setDestination] = useState('');
  const [asked, setAsked] = useState<{ request: string; offer: PaymentOffer } | null>(null);
  /** The outcome of the latest action. */
  const [status, setStatus] = useState<string | null>(null);
  useFocusAfterRemoval();
  const id = `at-${mintUrl}`;
  const request = `${destination} ${amount}`;
  /** None if the user has changed the fields since, even while the mint was asked. */
  const offer = asked?.request === request ? asked.offer : null;
  const create = useAction(async () => {
    setStatus(null);
    await wallet.withMint(mintUrl, (mint) => mint.createToken(readAmount(amount)));
    setAmount('');
    setStatus(t('collect.tokenCreated'));
  });
  const ask = useAction(async () => {
    setStatus(null);
    pay.clear();
    const found = await wallet.withMint(mintUrl, (mint) =>
      offerPayment(mint, destination, readAmount(amount)),
    );
    setAsked({ request, offer: found });
  });
  const pay = useAction(async (accepted: PaymentOffer) => {
    setAsked(null);
    const payment = await wallet.withMint(mintUrl, (mint) => mint.pay(accepted));
    // Also if it is under way, so that nobody pays it again.
    setDestination('');
    setAmount('');
    setStatus(payment && describePayment(payment));
  });
  const held = wallet.spendable.filter((holding) => holding.mintUrl === mintUrl);
  return (
    <>
      {held.length > 0 && (
        <div class="balance">
          <p class="total">{t('sats', { amount: sum(held.map(({ amountSat }) => amountSat)) })}</p>
          <p class="hint breakable">{t('collect.ecashOf', { mint: formatMint(mintUrl) })}</p>
          <FieldForm
            id={`amount-${id}`}
            label={t('amount.label')}
            value={amount}
            onText={setAmount}
            attributes={{ inputMode: 'numeric', placeholder: t('collect.everything') }}
            hint={t('collect.amountHint')}
            problem={create.problem}
            button={t('collect.createToken')}
            busyButton={create.isRunning && t('collect.creatingToken')}
            onSubmit={create.run}
          />
          <FieldForm
            id={`destination-${id}`}
            label={t('collect.payTo')}
            value={destination}
            onText={setDestination}
            attributes={{ inputMode: 'email', placeholder: 'alice@wallet.example' }}
            problem={ask.problem ?? pay.problem}
            button={t('collect.showFee')}
            isSecondary
            busyButton={
              (ask.isRunning && t('collect.asking')) || (pay.isRunning && t('collect.paying'))
            }
            onSubmit={ask.run}
          />
        </div>
      )}
      {offer !== null && (
        <fieldset class="card">
          <legend class="visually-hidden">{t('collect.confirm')}</legend>
          <p class="breakable">
            {rich('collect.confirmText', {
              amount: offer.amountSat,
              destination: <bdi>{shorten(destination.trim())}</bdi>,
              fee: offer.maxFeeSat,
            })}
          </p>
          <p class="row">
            <button type="button" onClick={() => void pay.run(offer)}>
              {t('collect.pay')}
            </button>
            <Button onClick={() => setAsked(null)}>{t('account.cancel')}</Button>
          </p>
        </fieldset>
      )}
      <Status text={status} />
    </>
  );
}

function Unfinished({ wallet: { unfinished, problems, finish } }: WalletProps) {
  const { isRunning, run } = useAction(finish);
  return unfinished.length === 0 ? null : (
    <>
      <h3>{t('collect.inProgress')}</h3>
      {unfinished.map(({ id, mintUrl, amountSat, melt }) => (
        <p key={id} class="unfinished breakable">
          {rich(melt === undefined ? 'collect.arriving' : 'collect.beingPaid', {
            amount: <strong>{t('sats', { amount: amountSat })}</strong>,
            mint: formatMint(mintUrl),
          })}
        </p>
      ))}
      {problems.length > 0 && (
        <>
          <p class="problem" role="status">
            {problems.join(' ')}
          </p>
          <Button aria-disabled={isRunning} onClick={() => void run()}>
            {t(isRunning ? 'collect.askingMint' : 'account.tryAgain')}
          </Button>
        </>
      )}
    </>
  );
}

interface TokenItemProps {
  token: Holding;
  isDisabled: boolean;
  onTakeBack: () => void;
}

function TokenItem({ token, isDisabled, onTakeBack }: TokenItemProps) {
  const [isOpen, setIsOpen] = useState(false);
  const text = encodeToken(token);
  return (
    <li class="token">
      <p class="row">
        <strong>{t('sats', { amount: token.amountSat })}</strong>
        <span class="hint breakable">{formatMint(token.mintUrl)}</span>
        <time class="hint" dateTime={new Date(token.createdAtMs).toISOString()}>
          {formatTime(token.createdAtMs)}
        </time>
      </p>
      <CopyableText text={text} label={t('account.copyToken')} />
      <p class="row">
        <a class="button secondary" href={`cashu:${text}`}>
          {t('invoice.openInWallet')}
        </a>
        {'share' in navigator && (
          <Button onClick={() => void navigator.share({ text }).catch(() => undefined)}>
            {t('collect.share')}
          </Button>
        )}
        <Button aria-disabled={isDisabled} onClick={onTakeBack}>
          {t('collect.takeBack')}
        </Button>
      </p>
      <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
        <summary>{t('collect.qrCode')}</summary>
        {isOpen && <TokenQrCode token={text} />}
      </details>
    </li>
  );
}

/** Returns null for everything. Throws with a sentence for the user. */
function readAmount(text: string): number | null {
  if (text.trim() === '') {
    return null;
  }
  const amount = validateAmount(text, { minSat: 1, maxSat: Number.MAX_SAFE_INTEGER });
  if (typeof amount !== 'number') {
    throw new ExplainedError(t(amount.key, amount.values));
  }
  return amount;
}

/** Shortens an invoice. */
function shorten(text: string): string {
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, 20)}…` : text;
}

function sum(amounts: readonly number[]): number {
  return amounts.reduce((total, amount) => total + amount, 0);
}

const root = getElement('collect', HTMLElement);
root.replaceChildren();
render(<Page />, root);
