import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Sats, Section, shortenNpub } from '../../elements.ts';
import type { ApiClient } from './api-client.ts';
import { Button, Problem, useAction } from './elements.tsx';
import {
  exportPayments,
  type Payment,
  readPayerNote,
  STATE_SENTENCES,
  STATE_TEXTS,
} from './payments.ts';
import { PAGE_SIZE, type PaymentsPage, usePayments } from './use-payments.ts';

const STATUS_TEXTS = {
  connecting: 'Connecting…',
  live: 'Live',
  reconnecting: 'Reconnecting…',
  paused: 'Paused',
};

interface PaymentsSectionsProps {
  api: ApiClient;
  /** Sections between the sum that waits and the list. They are not rendered again when payments arrive. */
  children: ComponentChildren;
}

export function PaymentsSections({ api, children }: PaymentsSectionsProps) {
  const payments = usePayments(api);
  return (
    <>
      <WaitingSection {...payments} />
      {children}
      <ReceivedSection {...payments} api={api} />
    </>
  );
}

type PaymentsProps = ReturnType<typeof usePayments>;

/** Has the same height before and after the payments have been read. */
function WaitingSection({ page, problem }: PaymentsProps) {
  const waiting = page?.summary.waiting;
  return (
    <Section title="Waiting to be collected">
      {page ? (
        <Total {...page.summary.waiting} summary={page.summary} />
      ) : (
        <>
          <p class="total">…</p>
          <p class="hint">
            {problem === null ? 'Reading your payments…' : 'Not known at the moment.'}
          </p>
        </>
      )}
      <p class="row">
        <a class={waiting?.payments ? 'button' : 'button secondary'} href="/collect">
          Collect
        </a>
        <a class="button secondary" href="#how-to-collect">
          How to collect with a wallet
        </a>
      </p>
    </Section>
  );
}

function ReceivedSection({ api, ...state }: PaymentsProps & { api: ApiClient }) {
  const { status, problem, page, newCount, showPage, resume } = state;
  const obstacle =
    status === 'paused'
      ? 'This list no longer updates by itself.'
      : 'Your payments could not be read.';
  return (
    <Section title="Received payments">
      <p class={status === 'live' ? 'badge good' : 'badge'}>{STATUS_TEXTS[status]}</p>
      <div role="status" class="visually-hidden">
        {page !== null && newCount > 0 && (
          // With another key, it is a new element, so that screen readers announce the same text again.
          <p key={page.total}>
            {newCount === 1 ? 'New payment' : `${newCount.toLocaleString()} new payments`}
            {newCount === 1 && page.offset === 0 && (
              <>
                : <Sats amount={page.payments[0]?.amount ?? 0} />
              </>
            )}
          </p>
        )}
      </div>
      <Problem text={problem && `${obstacle} ${problem}`} onRetry={resume} />
      {page === null && problem === null && <p>Reading your payments…</p>}
      {page?.total === 0 && (
        <p>
          You have no payments yet. Share one of your addresses: a payment appears here as soon as
          it arrives.
        </p>
      )}
      {page !== null && page.total > 0 && (
        <>
          <Total {...page.summary} summary={page.summary} />
          <Arriving {...page} />
          <ul class="payments">
            {page.payments.map((payment, index) => (
              <PaymentItem
                key={`${payment.mintUrl} ${payment.quoteId}`}
                payment={payment}
                isNew={page.offset + index < newCount}
              />
            ))}
          </ul>
          <Pages {...page} onChoose={showPage} />
          <Export api={api} />
        </>
      )}
    </Section>
  );
}

interface TotalProps {
  payments: number;
  amount: number;
  summary: PaymentsPage['summary'];
}

function Total({ payments, amount, summary }: TotalProps) {
  return (
    <>
      <p class="total">
        <Sats amount={amount} />
      </p>
      <p class="hint">
        {formatPayments(payments)}
        {!summary.complete && ` (among your latest ${formatPayments(summary.payments)})`}
      </p>
    </>
  );
}

/** The server lists at most a few payments per second, and counts all at once. */
function Arriving({ total, summary: { payments, complete } }: PaymentsPage) {
  const count = complete ? payments - total : 0;
  return count <= 0 ? null : (
    <p class="hint">
      {count === 1 ? '1 more payment is' : `${count.toLocaleString()} more payments are`} arriving…
    </p>
  );
}

function formatPayments(count: number): string {
  return `${count.toLocaleString()} ${count === 1 ? 'payment' : 'payments'}`;
}

/** A row, which opens to show everything that is known about the payment. */
function PaymentItem({ payment, isNew }: { payment: Payment; isNew: boolean }) {
  const { paidAt, amount, state, tag, mintUrl } = payment;
  const { comment, npub } = readPayerNote(payment);
  return (
    <li class={isNew ? 'new' : ''}>
      <details>
        <summary>
          <span class="row">
            <strong>
              <Sats amount={amount} />
            </strong>
            {isNew && <span class="badge good">new</span>}
            <span class={state === 'PAID' ? 'badge todo' : 'badge'}>{STATE_TEXTS[state]}</span>
            {tag !== undefined && <span class="badge breakable">+{tag}</span>}
            <Time seconds={paidAt} />
          </span>
          {comment !== '' && (
            <span class="comment breakable" dir="auto">
              {comment}
            </span>
          )}
          <span class="hint breakable">
            {npub !== '' && `Zap from ${shortenNpub(npub)} · `}Mint:{' '}
            {mintUrl.replace(/^https?:\/\//, '')}
          </span>
        </summary>
        <dl class="facts">
          <Fact title="State">
            {STATE_SENTENCES[state]}
            {state === 'PAID' && (
              <>
                {payment.locked && ' Only a wallet that signs with your Nostr key can do that.'}{' '}
                Some mints refuse after <Time seconds={payment.expiresAt} />.
              </>
            )}
          </Fact>
          {comment !== '' && (
            <Fact title="Comment">
              <span class="comment" dir="auto">
                {comment}
              </span>
            </Fact>
          )}
          {npub !== '' && <Fact title="Zap from">{npub}</Fact>}
          <Fact title="Mint">{mintUrl}</Fact>
        </dl>
      </details>
    </li>
  );
}

function Fact({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd class="breakable">{children}</dd>
    </div>
  );
}

function Time({ seconds }: { seconds: number }) {
  const time = new Date(seconds * 1_000);
  return (
    <time dir="auto" dateTime={time.toISOString()}>
      {time.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })}
    </time>
  );
}

type PagesProps = PaymentsPage & { onChoose: (offset: number) => void };

function Pages({ offset, total, payments, onChoose }: PagesProps) {
  if (total <= PAGE_SIZE) {
    return null;
  }
  const end = offset + payments.length;
  return (
    <nav class="row spread pages" aria-label="Pages of payments">
      {/* Disabled buttons would lose the focus. */}
      <Button
        aria-disabled={offset === 0}
        onClick={() => offset > 0 && onChoose(Math.max(0, offset - PAGE_SIZE))}
      >
        Newer
      </Button>
      <span>
        {(offset + 1).toLocaleString()}–{end.toLocaleString()} of {total.toLocaleString()}
      </span>
      <Button
        aria-disabled={end >= total}
        onClick={() => end < total && onChoose(offset + PAGE_SIZE)}
      >
        Older
      </Button>
    </nav>
  );
}

function Export({ api }: { api: ApiClient }) {
  const [progress, setProgress] = useState('');
  const controller = useRef(new AbortController());
  useEffect(() => () => controller.current.abort(), []);
  const { isRunning, problem, run } = useAction(() =>
    exportPayments(api, controller.current.signal, (readCount, total) =>
      setProgress(`Reading ${readCount.toLocaleString()} of ${total.toLocaleString()}…`),
    ),
  );
  return (
    <>
      <Button aria-disabled={isRunning} onClick={() => void run()}>
        {isRunning ? progress || 'Reading…' : 'Export as CSV'}
      </Button>
      <Problem text={problem && `The export failed. ${problem}`} />
    </>
  );
}
