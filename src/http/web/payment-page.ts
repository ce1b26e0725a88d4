import { html } from 'htm/preact';
import { buildLnurlUri, CopyableText, QrCode, Sats, Section } from './elements.ts';
import { type Page, shortenAddress } from './layout.ts';

export interface Payee {
  origin: string;
  /** In lower case, with the tag. */
  localPart: string;
  /** The local part and the host of the request. */
  address: string;
}

interface PaymentFormState {
  minSat: number;
  maxSat: number;
  /** 0: payers cannot send comments. */
  maxCommentLength: number;
  amount: string;
  comment: string;
  /** Why the form was invalid; null if it was not submitted. */
  problem: string | null;
}

export function paymentPage({ origin, localPart, address }: Payee, form: PaymentFormState): Page {
  const { minSat, maxSat, problem } = form;
  const uri = buildLnurlUri(origin, localPart);
  return {
    title: `Pay ${address}`,
    description: `Send sats to ${address} from any Lightning wallet.`,
    url: `${origin}/${localPart}`,
    script: 'payment',
    content: html`
      <h1><small>Pay</small> ${shortenAddress(address)}</h1>
      <div class="columns">
        <${Section} title="Scan or copy">
          <${QrCode} text=${uri} label=${`QR code of the Lightning address ${address}`} />
          <${CopyableText} id="address" text=${address} label="Copy address">
            <a class="button secondary" href=${uri}>Open in wallet</a>
          <//>
        <//>
        <${Section} title="Or create an invoice">
          <form method="post" action=${`/${localPart}`}>
            ${problem !== null && html`<p id="problem" class="problem" role="alert">${problem}</p>`}
            <label for="amount">Amount in sats</label>
            <input
              id="amount"
              name="amount"
              type="number"
              inputmode="numeric"
              required
              min=${minSat}
              max=${maxSat}
              step="1"
              value=${form.amount}
              autocomplete="off"
              aria-describedby="range problem"
              aria-invalid=${problem !== null}
            />
            <p id="range" class="hint">
              From <${Sats} amount=${minSat} /> to <${Sats} amount=${maxSat} />
            </p>
            ${form.maxCommentLength > 0 && html`<${CommentField} ...${form} />`}
            <button type="submit" id="create-invoice">Create invoice</button>
          </form>
        <//>
      </div>
    `,
  };
}

function CommentField({ comment, maxCommentLength }: PaymentFormState) {
  return html`
    <label for="comment">Comment (optional)</label>
    <textarea id="comment" name="comment" rows="2" maxlength=${maxCommentLength}>${comment}</textarea>
  `;
}
