import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Section, shortenNpub } from '../../elements.ts';
import { formatTime, link, rich, t } from '../translator.ts';
import type { ApiClient } from './api-client.ts';
import { WalletsForSum } from './collect-section.tsx';
import { CollectWithin, isPastDeadline } from './collect-within.tsx';
import { Button, Problem, useAction } from './elements.tsx';
import { exportPayments, type Payment, readPayerNote } from './payments.ts';
import { PAGE_SIZE, type PaymentsPage, usePayments } from './use-payments.ts';

const STATUS_TEXTS = {
  connecting: 'account.statusConnecting',
  live: 'account.statusLive',
  reconnecting: 'account.statusReconnecting',
  paused: 'account.statusPaused',
} as const;

const STATE_TEXTS = {
  INFLIGHT: 'account.stateInflight',
  PAID: 'account.statePaid',
  ISSUED: 'account.stateIssued',
} as const;

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

/** Has the same height before and after the payments have been read, unless they are locked or have a deadline. */
function WaitingSection({ page, problem }: PaymentsProps) {
  const { waiting, complete } = page?.summary ?? {};
  // Older payments, which the server does not count, may not be locked.
  const isLocked =
    waiting !== undefined &&
    complete === true &&
    waiting.locked > 0 &&
    waiting.locked === waiting.payments;
  return (
    <Section title={t('account.waitingTitle')}>
      {page ? (
        <>
          <Total {...page.summary.waiting} summary={page.summary} />
          <CollectWithin collectBy={page.summary.waiting.collectBy} />
        </>
      ) : (
        <>
          <p class="total">…</p>
          <p class="hint">{t(problem === null ? 'account.readingPayments' : 'account.notKnown')}</p>
        </>
      )}
      {isLocked && <p>{t('account.allLocked')}</p>}
      <p class="row">
        {!isLocked && (
          <a
            class={waiting?.payments || complete === false ? 'button' : 'button secondary'}
            href={link('/collect')}
          >
            {t('account.collect')}
          </a>
        )}
        <a class={isLocked ? 'button' : 'button secondary'} href="#how-to-collect">
          {t('account.collectWithWallet')}
        </a>
      </p>
      {!isLocked && <WalletsForSum />}
    </Section>
  );
}

function ReceivedSection({ api, ...state }: PaymentsProps & { api: ApiClient }) {
  const { status, problem, page, newCount, showPage, resume } = state;
  const obstacle = status === 'paused' ? 'account.listPaused' : 'account.listFailed';
  return (
    <Section title={t('account.receivedTitle')}>
      <p class={status === 'live' ? 'badge good' : 'badge'}>{t(STATUS_TEXTS[status])}</p>
      <div role="status" class="visually-hidden">
        {page !== null && newCount > 0 && (
          // With another key, it is a new element, so that screen readers announce the same text again.
          <p key={page.total}>
            {newCount === 1 && page.offset === 0
              ? t('account.newPayment', { amount: page.payments[0]?.amount ?? 0 })
              : t('account.newPayments', { count: newCount })}
          </p>
        )}
      </div>
      <Problem text={problem && t(obstacle, { problem })} onRetry={resume} />
      {page === null && problem === null && <p>{t('account.readingPayments')}</p>}
      {page?.total === 0 && <p>{t('account.noPayments')}</p>}
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
      <p class="total">{t('sats', { amount })}</p>
      <p class="hint">
        {summary.complete
          ? t('account.payments', { count: payments })
          : t('account.paymentsAmong', { count: payments, latest: summary.payments })}
      </p>
    </>
  );
}

/** The server lists at most a few payments per second, and counts all at once. */
function Arriving({ total, summary: { payments, complete } }: PaymentsPage) {
  const count = complete ? payments - total : 0;
  return count <= 0 ? null : <p class="hint">{t('account.arriving', { count })}</p>;
}

/** A row, which opens to show everything that is known about the payment. */
function PaymentItem({ payment, isNew }: { payment: Payment; isNew: boolean }) {
  const { paidAt, amount, state, tag, mintUrl } = payment;
  const { comment, npub } = readPayerNote(payment);
  const mint = mintUrl.replace(/^https?:\/\//, '');
  return (
    <li class={isNew ? 'new' : ''}>
      <details>
        <summary>
          <span class="row">
            <strong>{t('sats', { amount })}</strong>
            {isNew && <span class="badge good">{t('account.new')}</span>}
            <span class={state === 'PAID' ? 'badge todo' : 'badge'}>{t(STATE_TEXTS[state])}</span>
            {tag !== undefined && <span class="badge breakable">+{tag}</span>}
            <Time seconds={paidAt} />
          </span>
          {comment !== '' && (
            <span class="comment breakable" dir="auto">
              {comment}
            </span>
          )}
          <span class="hint breakable">
            {npub === ''
              ? t('account.fromMint', { mint })
              : t('account.zapFromMint', { mint, npub: shortenNpub(npub) })}
          </span>
        </summary>
        <dl class="facts">
          <Fact title={t('account.state')}>{describeState(payment)}</Fact>
          {comment !== '' && (
            <Fact title={t('account.comment')}>
              <span class="comment" dir="auto">
                {comment}
              </span>
            </Fact>
          )}
          {npub !== '' && <Fact title={t('account.zapFrom')}>{npub}</Fact>}
          <Fact title={t('account.mint')}>{mintUrl}</Fact>
        </dl>
      </details>
    </li>
  );
}

function describeState(payment: Payment): ComponentChildren {
  const { collectBy } = payment;
  switch (payment.state) {
    case 'INFLIGHT':
      return t('account.inflightText');
    case 'ISSUED':
      return t('account.issuedText');
    case 'PAID':
      return (
        <>
          {t(payment.locked ? 'account.lockedText' : 'account.paidText')}{' '}
          {collectBy !== undefined &&
            rich(isPastDeadline(payment) ? 'account.deadlinePassed' : 'account.collectBefore', {
              time: <Time seconds={collectBy} />,
            })}
        </>
      );
  }
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
  const ms = seconds * 1_000;
  return (
    <time dir="auto" dateTime={new Date(ms).toISOString()}>
      {formatTime(ms)}
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
    <nav class="row spread pages" aria-label={t('account.pages')}>
      {/* Disabled buttons would lose the focus. */}
      <Button
        aria-disabled={offset === 0}
        onClick={() => offset > 0 && onChoose(Math.max(0, offset - PAGE_SIZE))}
      >
        {t('account.newer')}
      </Button>
      <span>{t('account.pageOf', { first: offset + 1, last: end, total })}</span>
      <Button
        aria-disabled={end >= total}
        onClick={() => end < total && onChoose(offset + PAGE_SIZE)}
      >
        {t('account.older')}
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
      setProgress(t('account.exportProgress', { count: readCount, total })),
    ),
  );
  return (
    <>
      <Button aria-disabled={isRunning} onClick={() => void run()}>
        {isRunning ? progress || t('account.exporting') : t('account.export')}
      </Button>
      <Problem text={problem && t('account.exportFailed', { problem })} />
    </>
  );
}
