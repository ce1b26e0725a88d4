import { useState } from 'preact/hooks';
import { type SatRange, validateAmount } from '../../amount.ts';
import { buildPaymentQrText, CopyableText, QrCode } from '../../elements.ts';
import { t } from '../translator.ts';
import { Button, Problem, useLoaded } from './elements.tsx';

interface PaymentRequestProps {
  pageUrl: string;
  mintUrl: string;
}

/** All bitcoins. The payment page checks the amount again, and the length of the comment. */
const ANY_AMOUNT = { minSat: 1, maxSat: 2_100_000_000_000_000 };

/** Makes a link to a payment page with an amount and a comment, which the payer can change. */
export function PaymentRequest({ pageUrl, mintUrl }: PaymentRequestProps) {
  const { origin, pathname } = new URL(pageUrl);
  const range = useLoaded((signal) => fetchRange(pathname, signal), [pathname, mintUrl]);
  const [amount, setAmount] = useState('');
  const [comment, setComment] = useState('');
  const amountSat = amount.trim() === '' ? null : validateAmount(amount, range.data ?? ANY_AMOUNT);
  const amountProblem = typeof amountSat === 'number' ? null : amountSat;
  const query = new URLSearchParams({ amount: `${amountSat}`, ...(comment !== '' && { comment }) });
  const link = `${pageUrl}?${query}`;
  return (
    <details class="address">
      <summary>{t('account.requestAmount')}</summary>
      <div class="columns">
        <form noValidate onSubmit={(event) => event.preventDefault()}>
          <label for="request-amount">{t('amount.label')}</label>
          <input
            id="request-amount"
            inputMode="numeric"
            autocomplete="off"
            value={amount}
            aria-invalid={amountProblem !== null}
            aria-describedby="request-problem"
            onInput={({ currentTarget }) => setAmount(currentTarget.value)}
          />
          <div id="request-problem">
            <Problem text={amountProblem && t(amountProblem.key, amountProblem.values)} />
          </div>
          <label for="request-comment">{t('pay.comment')}</label>
          <textarea
            id="request-comment"
            rows={2}
            value={comment}
            onInput={({ currentTarget }) => setComment(currentTarget.value)}
          />
        </form>
        {typeof amountSat === 'number' && (
          <div>
            <QrCode
              text={buildPaymentQrText(origin, pathname.slice(1), `${query}&`)}
              label={t('account.requestQrCode')}
            />
            <CopyableText text={link} label={t('account.copyLink')}>
              {/* Rejects if the user closes the dialog. */}
              {'share' in navigator && (
                <Button onClick={() => void navigator.share({ url: link }).catch(() => undefined)}>
                  {t('account.shareLink')}
                </Button>
              )}
            </CopyableText>
          </div>
        )}
      </div>
    </details>
  );
}

/** Returns what payers can send (LUD-06), which depends on the mint and on the operator. */
async function fetchRange(paymentPath: string, signal: AbortSignal): Promise<SatRange> {
  const response = await fetch(`/.well-known/lnurlp${paymentPath}`, { signal });
  const { minSendable, maxSendable } = await response.json();
  if (!(maxSendable > 0)) {
    throw new Error('The address accepts no payments at the moment.');
  }
  return { minSat: Math.ceil(minSendable / 1_000), maxSat: Math.floor(maxSendable / 1_000) };
}
