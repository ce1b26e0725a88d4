import { useEffect, useRef, useState } from 'preact/hooks';
import { formatNumber } from '../common.ts';
import type { ApiClient } from './api-client.ts';
import { ActionableProblem, Problem, Sats, Section, useAction } from './elements.tsx';
import { exportPayments } from './export-payments.ts';
import { type Payment, readPayer, STATE_TEXTS } from './payments.ts';
import { PAGE_SIZE, type Summary, usePayments } from './use-payments.ts';

const LIVE_TEXTS = {
  connecting: 'Connecting…',
  live: 'Live',
  reconnecting: 'Reconnecting…',
  paused: 'Paused',
};

export function PaymentsSection({ api }: { api: ApiClient }) {
  const { status, problem, page, newPayments, showPage, resume } = usePayments(api);
  return (
    <Section title="Received payments">
      <p class={status === 'live' ? 'badge good' : 'badge'}>{LIVE_TEXTS[status]}</p>
      <Announcement payments={newPayments} />
      {problem !== null && (
        <ActionableProblem action="Try again" onAction={resume}>
          {status === 'paused'
            ? 'This list no longer updates by itself.'
            : 'Your payments could not be read.'}{' '}
          {problem}
        </ActionableProblem>
      )}
      {page === null && problem === null && <p>Reading your payments…</p>}
      {page?.total === 0 && (
        <p>
          You have no payments yet. Share one of your addresses below: a payment appears here as
          soon as it arrives.
        </p>
      )}
      {page !== null && page.total > 0 && (
        <>
          <Totals summary={page.summary} />
          <PaymentList payments={page.payments} />
          <Pages {...page} onChoose={showPage} />
          <Export api={api} />
        </>
      )}
    </Section>
  );
}

function Announcement({ payments }: { payments: readonly Payment[] }) {
  const [payment] = payments;
  const count = payments.length;
  return (
    <div role="status" class="visually-hidden">
      {payment !== undefined && (
        <p key={payment.quoteId}>
          {count > 1 && `${formatNumber(count)} new payments, the latest: `}
          {count === 1 && 'New payment: '}
          <Sats amount={payment.amount} />
        </p>
      )}
    </div>
  );
}

function Totals({ summary: { payments, amount, waiting, complete } }: { summary: Summary }) {
  return (
    <>
      <dl class="totals">
        <div>
          <dt>Received</dt>
          <dd>
            <Sats amount={amount} />
          </dd>
          <dd class="hint">{formatPayments(payments)}</dd>
        </div>
        <div>
          <dt>Waiting to be collected</dt>
          <dd>
            <Sats amount={waiting.amount} />
          </dd>
          <dd class="hint">{formatPayments(waiting.payments)}</dd>
        </div>
      </dl>
      {!complete && <p class="hint">Totals of your latest {formatPayments(payments)}.</p>}
    </>
  );
}

function formatPayments(count: number): string {
  return `${formatNumber(count)} ${count === 1 ? 'payment' : 'payments'}`;
}

function PaymentList({ payments }: { payments: readonly Payment[] }) {
  return (
    <ul class="payments">
      {payments.map((payment) => (
        <PaymentItem key={`${payment.mintUrl} ${payment.quoteId}`} payment={payment} />
      ))}
    </ul>
  );
}

function PaymentItem({ payment }: { payment: Payment }) {
  const { paidAt, amount, state, tag } = payment;
  const { comment, npub } = readPayer(payment);
  const time = new Date(paidAt * 1_000);
  return (
    <li>
      <p class="row">
        <strong>
          <Sats amount={amount} />
        </strong>
        <span class={state === 'ISSUED' ? 'badge' : 'badge good'}>{STATE_TEXTS[state]}</span>
        {tag !== undefined && <span class="badge breakable">+{tag}</span>}
        <time class="hint" dir="auto" dateTime={time.toISOString()}>
          {time.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })}
        </time>
      </p>
      {comment !== '' && (
        <p class="breakable" dir="auto">
          {comment}
        </p>
      )}
      {npub !== null && (
        <details>
          <summary>
            Zap from {npub.slice(0, 12)}…{npub.slice(-6)}
          </summary>
          <code class="breakable">{npub}</code>
        </details>
      )}
    </li>
  );
}

interface PagesProps {
  offset: number;
  total: number;
  payments: readonly Payment[];
  onChoose: (offset: number) => void;
}

function Pages({ offset, total, payments, onChoose }: PagesProps) {
  if (total <= PAGE_SIZE) {
    return null;
  }
  const end = offset + payments.length;
  return (
    <nav class="row spread pages" aria-label="Pages of payments">
      <button
        type="button"
        class="secondary"
        disabled={offset === 0}
        onClick={() => onChoose(Math.max(0, offset - PAGE_SIZE))}
      >
        Newer
      </button>
      <span>
        {formatNumber(offset + 1)}–{formatNumber(end)} of {formatNumber(total)}
      </span>
      <button
        type="button"
        class="secondary"
        disabled={end >= total}
        onClick={() => onChoose(offset + PAGE_SIZE)}
      >
        Older
      </button>
    </nav>
  );
}

function Export({ api }: { api: ApiClient }) {
  const [progress, setProgress] = useState('');
  const controller = useRef(new AbortController());
  useEffect(() => () => controller.current.abort(), []);
  const { isRunning, problem, run } = useAction(() =>
    exportPayments(api, controller.current.signal, (readCount, total) =>
      setProgress(`Reading ${formatNumber(readCount)} of ${formatNumber(total)}…`),
    ),
  );
  return (
    <>
      <button type="button" class="secondary" disabled={isRunning} onClick={() => void run()}>
        {isRunning ? progress || 'Reading…' : 'Export as CSV'}
      </button>
      {problem !== null && <Problem>The export failed. {problem}</Problem>}
    </>
  );
}
