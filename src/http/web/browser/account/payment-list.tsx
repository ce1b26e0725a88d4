import { Sats } from './elements.tsx';
import { type Payment, readPayer, STATE_TEXTS } from './payments.ts';

export function PaymentList({ payments }: { payments: readonly Payment[] }) {
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
