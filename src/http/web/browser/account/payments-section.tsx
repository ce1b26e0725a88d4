import { useEffect, useRef, useState } from 'preact/hooks';
import { formatNumber } from '../common.ts';
import type { ApiClient } from './api-client.ts';
import { ActionableProblem, Problem, Sats, Section, useAction } from './elements.tsx';
import { exportPayments } from './export-payments.ts';
import type { LiveStatus } from './live-updates.ts';
import {
  type FeedState,
  INITIAL_STATE,
  PAGE_SIZE,
  PaymentFeed,
  type Summary,
} from './payment-feed.ts';
import { PaymentList } from './payment-list.tsx';
import type { Payment } from './payments.ts';

const LIVE_TEXTS: Record<LiveStatus, string> = {
  connecting: 'Connecting…',
  live: 'Live',
  reconnecting: 'Reconnecting…',
  paused: 'Paused',
};

/** The received payments, live, with totals. */
export function PaymentsSection({ api }: { api: ApiClient }) {
  const [state, setState] = useState<FeedState>(INITIAL_STATE);
  const feed = useRef<PaymentFeed | null>(null);
  useEffect(() => {
    feed.current = new PaymentFeed(api, setState);
    feed.current.start();
    return () => feed.current?.stop();
  }, [api]);

  const { page, liveStatus, liveProblem, loadProblem, newPayments } = state;
  return (
    <Section title="Received payments">
      <p class={liveStatus === 'live' ? 'badge good' : 'badge'}>{LIVE_TEXTS[liveStatus]}</p>
      <Announcement payments={newPayments} />
      {liveStatus === 'paused' && (
        <ActionableProblem action="Update again" onAction={() => feed.current?.resume()}>
          This list no longer updates by itself. {liveProblem}
        </ActionableProblem>
      )}
      {loadProblem !== null && liveStatus !== 'paused' && (
        <ActionableProblem action="Try again" onAction={() => void feed.current?.reload()}>
          Your payments could not be read. {loadProblem}
        </ActionableProblem>
      )}
      {page === null && loadProblem === null && <p>Reading your payments…</p>}
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
          <Pages {...page} onChoose={(offset) => void feed.current?.showPage(offset)} />
          <Export api={api} />
        </>
      )}
    </Section>
  );
}

/** Tells screen readers about new payments. */
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
