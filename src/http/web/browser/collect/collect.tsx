import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { parseAmount } from '../../amount.ts';
import { CopyableText, Sats, Section } from '../../elements.ts';
import { Button, FieldForm, Problem, Status, useAction, useLoaded } from '../account/elements.tsx';
import { type AccountSession, restoreSession } from '../account/restore-session.ts';
import { followTabs } from '../account/tabs.ts';
import { getElement } from '../common.ts';
import { getText } from '../texts.ts';
import type { Holding } from './holdings.ts';
import { offerPayment } from './lightning.ts';
import { formatMint } from './mint-problem.ts';
import { encodeToken, type PaymentOffer } from './mint-wallet.ts';
import { TokenQrCode } from './token-qr-code.tsx';
import { listMints, useWallet, type WalletState } from './use-wallet.ts';

function Page() {
  const { data, problem, reload } = useLoaded(restoreSession, []);
  const session = data?.session;
  useEffect(() => {
    if (session === null) {
      location.replace('/account#collect');
    }
  }, [session]);
  return (
    <>
      <h1>Collect</h1>
      <Problem text={problem} onRetry={reload} />
      <Problem text={isSecureContext ? null : 'Collecting in the browser needs HTTPS.'} />
      {isSecureContext && session && <Wallet {...session} />}
      {isSecureContext && !session && problem === null && <p class="loading">Loading…</p>}
    </>
  );
}

function Wallet(session: AccountSession) {
  const wallet = useWallet(session);
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
      location.replace('/account');
    };
    return followTabs(session.user, () => undefined, leave);
  }, []);
  return (
    <>
      <WaitingSection wallet={wallet} />
      <Section title="In this browser">
        <p>
          Ecash is like cash: this browser keeps it, and nobody can replace it. Take it into your
          wallet soon, because browsers delete their data if you tell them to, and some do so by
          themselves after a week.
        </p>
        {spendable.length === 0 && <p class="hint">There is no ecash here now.</p>}
        {shownMints.current.map((mintUrl) => (
          <MintBalance key={mintUrl} mintUrl={mintUrl} wallet={wallet} />
        ))}
        <Unfinished wallet={wallet} />
      </Section>
      {tokens.length > 0 && (
        <Section title="Tokens that nobody has taken yet">
          <p>
            Paste or scan a token in your wallet. Whoever gets it first owns the money. It
            disappears from this list when it has been taken.
          </p>
          <ul class="payments">
            {tokens.map((token) => (
              <TokenItem key={token.id} token={token} wallet={wallet} />
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
  const list = useLoaded(wallet.readQuotes, []);
  const { isRunning, problem, run } = useAction(async () => {
    // Without this, the browser may delete the ecash when the disk is full.
    void navigator.storage.persist();
    await wallet.collect();
  });
  useEffect(() => {
    const refresh = () => document.hidden || void wallet.readQuotes().catch(() => undefined);
    document.addEventListener('visibilitychange', refresh);
    return () => document.removeEventListener('visibilitychange', refresh);
  }, []);
  const isLoading = list.data === null && list.problem === null;
  return (
    <Section title="Waiting">
      <p class="total">
        {isLoading ? '…' : <Sats amount={sum(collectable.map(({ amount }) => amount))} />}
      </p>
      <p class="hint breakable">
        {isLoading && 'Reading your payments…'}
        {!isLoading && collectable.length === 0 && 'Nothing is waiting at the moment.'}
        {collectable.length > 0 &&
          `${formatPayments(collectable.length)} at ${listMints(collectable).map(formatMint).join(', ')}`}
      </p>
      {(isRunning || collectable.length > 0) && (
        <p>
          <button
            type="button"
            aria-busy={isRunning}
            aria-disabled={isRunning}
            onClick={() => void run()}
          >
            {isRunning ? 'Collecting…' : 'Collect'}
          </button>
        </p>
      )}
      <Problem text={list.problem} onRetry={list.reload} />
      <Problem text={problem} />
      {refused.map(({ id, mintUrl, amountSat, problem: reason }) => (
        <p key={id} class="problem">
          {formatMint(mintUrl)} refuses to pay out <Sats amount={amountSat} />. It says: {reason}
        </p>
      ))}
      {locked.length > 0 && (
        <p>
          <Sats amount={sum(locked.map(({ amount }) => amount))} /> more are locked to your Nostr
          key, which this page does not have: collect them in a wallet that has the key and signs
          with it, such as one built with cdk.
        </p>
      )}
    </Section>
  );
}

function MintBalance({ wallet, mintUrl }: WalletProps & { mintUrl: string }) {
  const [amount, setAmount] = useState('');
  const [destination, setDestination] = useState('');
  const [offer, setOffer] = useState<PaymentOffer | null>(null);
  /** The outcome of the latest action. */
  const [status, setStatus] = useState<string | null>(null);
  const id = `at-${mintUrl}`;
  const create = useAction(async () => {
    setStatus(null);
    await wallet.withMint(mintUrl, (mint) => mint.createToken(readAmount(amount)));
    setAmount('');
    setStatus('The token was created. It is in the list below.');
  });
  const ask = useAction(async () => {
    setStatus(null);
    const text = destination.trim();
    setOffer(
      await wallet.withMint(mintUrl, (mint) => offerPayment(mint, text, readAmount(amount))),
    );
  });
  const pay = useAction(async (accepted: PaymentOffer) => {
    setOffer(null);
    const feeSat = await wallet.withMint(mintUrl, (mint) => mint.pay(accepted));
    setDestination('');
    setAmount('');
    setStatus(`Paid ${formatSats(accepted.amountSat)}. The fee was ${formatSats(feeSat)}.`);
  });
  const held = wallet.spendable.filter((holding) => holding.mintUrl === mintUrl);
  return (
    <>
      {held.length > 0 && (
        <div class="balance">
          <p class="total">
            <Sats amount={sum(held.map(({ amountSat }) => amountSat))} />
          </p>
          <p class="hint breakable">Ecash of {formatMint(mintUrl)}</p>
          <FieldForm
            id={`amount-${id}`}
            label="Amount in sats"
            value={amount}
            onText={(text) => {
              setAmount(text);
              setOffer(null);
            }}
            attributes={{ inputMode: 'numeric', placeholder: 'everything' }}
            hint="Applies to a token and to a Lightning address. If the field is empty, it means everything."
            problem={create.problem}
            button="Create token"
            busyButton={create.isRunning && 'Creating…'}
            onSubmit={create.run}
          />
          <FieldForm
            id={`destination-${id}`}
            label="Or pay it to a Lightning address or invoice"
            value={destination}
            onText={(text) => {
              setDestination(text);
              setOffer(null);
            }}
            attributes={{ inputMode: 'email', placeholder: 'alice@wallet.example' }}
            problem={ask.problem ?? pay.problem}
            button="Show the fee"
            isSecondary
            busyButton={(ask.isRunning && 'Asking…') || (pay.isRunning && 'Paying…')}
            onSubmit={ask.run}
          />
        </div>
      )}
      {offer !== null && (
        <fieldset class="card">
          <legend class="visually-hidden">Confirm the payment</legend>
          <p>
            Pay <Sats amount={offer.amountSat} />? The fee is at most{' '}
            <Sats amount={offer.maxFeeSat} />.
          </p>
          <p class="row">
            <button type="button" onClick={() => void pay.run(offer)}>
              Pay
            </button>
            <Button onClick={() => setOffer(null)}>Cancel</Button>
          </p>
        </fieldset>
      )}
      <Status text={status} />
    </>
  );
}

function Unfinished({ wallet: { unfinished, problems, finish } }: WalletProps) {
  const { isRunning, run } = useAction(finish);
  const texts = Object.values(problems);
  return unfinished.length === 0 ? null : (
    <>
      <h3>In progress</h3>
      {unfinished.map(({ id, mintUrl, amountSat, melt }) => (
        <p key={id} class="unfinished breakable">
          <strong>
            <Sats amount={amountSat} />
          </strong>{' '}
          at {formatMint(mintUrl)}{' '}
          {melt === undefined ? 'are on the way into this browser.' : 'are being paid.'}
        </p>
      ))}
      {texts.length > 0 && (
        <>
          <p class="problem" role="status">
            {texts.join(' ')}
          </p>
          <Button aria-disabled={isRunning} onClick={() => void run()}>
            {isRunning ? 'Asking the mint…' : 'Try again'}
          </Button>
        </>
      )}
    </>
  );
}

function TokenItem({ token, wallet }: WalletProps & { token: Holding }) {
  const [isOpen, setIsOpen] = useState(false);
  const text = encodeToken(token);
  const takeBack = useAction(() => wallet.withMint(token.mintUrl, (mint) => mint.takeBack(token)));
  return (
    <li class="token">
      <p class="row">
        <strong>
          <Sats amount={token.amountSat} />
        </strong>
        <span class="hint breakable">{formatMint(token.mintUrl)}</span>
        <time class="hint" dateTime={new Date(token.createdAtMs).toISOString()}>
          {new Date(token.createdAtMs).toLocaleString(undefined, {
            dateStyle: 'medium',
            timeStyle: 'short',
          })}
        </time>
      </p>
      <CopyableText text={text} label="Copy token" />
      <p class="row">
        <a class="button secondary" href={`cashu:${text}`}>
          Open in wallet
        </a>
        {'share' in navigator && (
          <Button onClick={() => void navigator.share({ text }).catch(() => undefined)}>
            Share
          </Button>
        )}
        <Button aria-disabled={takeBack.isRunning} onClick={() => void takeBack.run()}>
          {takeBack.isRunning ? 'Taking back…' : 'Take back'}
        </Button>
      </p>
      <Problem text={takeBack.problem} />
      <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
        <summary>QR code</summary>
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
  const amount = parseAmount(text);
  if (typeof amount !== 'number') {
    throw new Error(getText(amount));
  }
  return amount;
}

function sum(amounts: readonly number[]): number {
  return amounts.reduce((total, amount) => total + amount, 0);
}

function formatSats(amountSat: number): string {
  return `${amountSat.toLocaleString()} ${amountSat === 1 ? 'sat' : 'sats'}`;
}

function formatPayments(count: number): string {
  return `${count.toLocaleString()} ${count === 1 ? 'payment' : 'payments'}`;
}

const root = getElement('collect', HTMLElement);
root.replaceChildren();
render(<Page />, root);
