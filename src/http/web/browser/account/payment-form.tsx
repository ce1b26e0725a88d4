import { useState } from 'preact/hooks';
import { CopyableText, QrCode, Sats } from '../../elements.ts';
import { FieldForm, useAction } from './elements.tsx';
import { describePaymentProblem, findTokenProblem } from './problem-text.ts';

interface PaymentFormProps {
  priceSat: number;
  mintUrl: string | undefined;
  request: string;
  token: string;
  onToken: (token: string) => void;
  onSubmit: (token: string) => Promise<void>;
  onCancel: () => void;
}

/** Shows a payment request, and takes the token that pays it. */
export function PaymentForm(props: PaymentFormProps) {
  const { priceSat, mintUrl, request, token, onToken, onSubmit, onCancel } = props;
  const [tokenProblem, setTokenProblem] = useState<string | null>(null);
  const { isRunning, problem, run } = useAction(onSubmit, describePaymentProblem);
  const submit = () => {
    // Some programs break long lines.
    const text = token.replace(/\s+/g, '');
    const newTokenProblem = findTokenProblem(text);
    setTokenProblem(newTokenProblem);
    return newTokenProblem ?? run(text);
  };
  return (
    <div class="columns">
      <div>
        <h4>1. Pay the request</h4>
        <p>
          Scan or copy this request with a Cashu wallet that pays requests. Or create a token over{' '}
          <strong>
            <Sats amount={priceSat} />
          </strong>{' '}
          in your wallet. The ecash must be from this mint: <code class="breakable">{mintUrl}</code>
        </p>
        <QrCode text={request} label="QR code of the payment request" />
        <CopyableText text={request} label="Copy request" />
      </div>
      <div>
        <h4>2. Paste the token</h4>
        <FieldForm
          id="token"
          label="Token from your wallet"
          value={token}
          onText={onToken}
          attributes={{ rows: 5, readOnly: isRunning, placeholder: 'cashuB…' }}
          hint={
            'The token stays in this field until the name is yours. If something fails, you can use it again: the ' +
            'server never spends a token twice.'
          }
          problem={tokenProblem ?? problem}
          button="Buy"
          busyButton={isRunning && 'Buying…'}
          onSubmit={submit}
        >
          <button
            type="button"
            class="secondary"
            aria-disabled={isRunning}
            onClick={() => isRunning || onCancel()}
          >
            Choose another name
          </button>
        </FieldForm>
      </div>
    </div>
  );
}
