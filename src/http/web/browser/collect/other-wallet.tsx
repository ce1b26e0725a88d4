import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { CopyableText, QrCode } from '../../elements.ts';
import { ApiError } from '../account/api-client.ts';
import { FieldForm, useAction } from '../account/elements.tsx';
import { isOutcomeUnknown, parseToken } from '../account/problem-text.ts';
import { rich, t } from '../translator.ts';

interface OtherWalletProps {
  /** The payment request of the server (NUT-18). */
  request: string;
  price: VNode;
  mintUrl: string;
  /** Whether the name is paid for. */
  isBought: boolean;
  buy: (token: string) => Promise<void>;
}

const TOKEN_TEXTS = {
  payment_required: 'account.tokenNotUsed',
  // An earlier token has already begun this purchase.
  token_not_used: 'account.earlierToken',
  too_large: 'account.tokenTooLong',
} as const;

/** Pays with a token that the user creates in another wallet, and pastes. */
export function OtherWallet({ request, price, mintUrl, isBought, buy }: OtherWalletProps) {
  const [text, setText] = useState('');
  /** The token may be spent or not. Another one could be lost: if this one has paid, the server does not use it. */
  const [isUncertain, setIsUncertain] = useState(false);
  const { isRunning, problem, run } = useAction(async () => {
    const token = parseToken(text);
    try {
      await buy(token);
      setText('');
    } catch (error) {
      const status = error instanceof ApiError ? error.status : 0;
      if (isOutcomeUnknown(error) || status >= 500) {
        setIsUncertain(true);
      } else if (status === 400 || status === 402) {
        // With these statuses, no purchase of the user is in progress.
        setIsUncertain(false);
      }
      throw error;
    }
  }, TOKEN_TEXTS);
  const hasToken = text !== '';
  useEffect(() => {
    const warn = (event: Event) => hasToken && event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [hasToken]);
  if (isBought) {
    // Another payment was faster, so that the token is still money.
    return hasToken ? <CopyableText text={text} label={t('account.copyToken')} /> : null;
  }
  return (
    <div class="columns">
      <div>
        <h3>{t('account.payRequest')}</h3>
        <p>
          {rich('account.payRequestText', {
            price,
            mint: <code class="breakable">{mintUrl}</code>,
          })}
        </p>
        <QrCode text={request} label={t('account.requestCode')} />
        <CopyableText text={request} label={t('account.copyRequest')} />
      </div>
      <div>
        <h3>{t('account.pasteToken')}</h3>
        <FieldForm
          id="token"
          label={t('account.tokenLabel')}
          value={text}
          onText={setText}
          attributes={{ rows: 5, readOnly: isRunning || isUncertain, placeholder: 'cashuB…' }}
          hint={t('account.tokenHint')}
          problem={problem}
          button={t('account.buy')}
          busyButton={isRunning && t('account.buying')}
          onSubmit={run}
        />
      </div>
    </div>
  );
}
