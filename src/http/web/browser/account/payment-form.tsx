import { useState } from 'preact/hooks';
import { CopyableText, Form, Problem, QrCode, Sats, SubmitButton, useAction } from './elements.tsx';
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

/** Shows a payment request, and takes the token that pays it. The token stays in its field until it was accepted. */
export function PaymentForm(props: PaymentFormProps) {
  const { priceSat, mintUrl, request, token, onToken, onSubmit, onCancel } = props;
  const [tokenProblem, setTokenProblem] = useState<string | null>(null);
  const { isRunning, problem: paymentProblem, run } = useAction(onSubmit, describePaymentProblem);
  const problem = tokenProblem ?? paymentProblem;
  const submit = async () => {
    // Some programs break long lines.
    const text = token.replace(/\s+/g, '');
    const newTokenProblem = findTokenProblem(text);
    setTokenProblem(newTokenProblem);
    if (newTokenProblem === null) {
      await run(text);
    }
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
      <Form onSubmit={submit}>
        <h4>2. Paste the token</h4>
        <label for="token">Token from your wallet</label>
        <textarea
          id="token"
          rows={5}
          value={token}
          readOnly={isRunning}
          placeholder="cashuB…"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          aria-invalid={problem !== null}
          aria-describedby="token-hint token-problem"
          onInput={({ currentTarget }) => onToken(currentTarget.value)}
        />
        <p class="hint" id="token-hint">
          The token stays in this field until the name is yours. If something fails, you can use it
          again: the server never spends a token twice.
        </p>
        <div id="token-problem">{problem !== null && <Problem>{problem}</Problem>}</div>
        <div class="row">
          <SubmitButton isBusy={isRunning} busyLabel="Buying…">
            Buy
          </SubmitButton>
          <button
            type="button"
            class="secondary"
            aria-disabled={isRunning}
            onClick={() => isRunning || onCancel()}
          >
            Choose another name
          </button>
        </div>
      </Form>
    </div>
  );
}
