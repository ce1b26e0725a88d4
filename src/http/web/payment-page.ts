import { html } from 'htm/preact';
import { CopyableText, type Page, QrCode, Sats, shortenAddress } from './layout.ts';

export interface PaymentPageData {
  address: string;
  /** In lower case (LUD-01). */
  lnurl: string;
  url: string;
  path: string;
  minSat: number;
  maxSat: number;
  /** 0: payers cannot send comments. */
  maxCommentLength: number;
  amount: string;
  comment: string;
  /** Why the form was invalid; null if it was not submitted. */
  problem: string | null;
}

export function paymentPage(data: PaymentPageData): Page {
  const { address, lnurl, minSat, maxSat, problem } = data;
  const uri = `lightning:${lnurl.toUpperCase()}`;
  return {
    title: `Pay ${address}`,
    description: `Send sats to ${address} from any Lightning wallet.`,
    url: data.url,
    script: 'payment',
    content: html`
      <h1><small>Pay</small> ${shortenAddress(address)}</h1>
      <div class="columns">
        <section class="card" aria-labelledby="scan-title">
          <h2 id="scan-title">Scan or copy</h2>
          <${QrCode} text=${uri} label=${`QR code of the Lightning address ${address}`} />
          <${CopyableText} id="address" text=${address} label="Copy address">
            <a class="button secondary" href=${uri}>Open in wallet</a>
          <//>
        </section>
        <section class="card" aria-labelledby="invoice-title">
          <h2 id="invoice-title">Or create an invoice</h2>
          <form method="post" action=${data.path} id="payment-form">
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
              value=${data.amount}
              autocomplete="off"
              aria-describedby=${problem === null ? 'range' : 'range problem'}
              aria-invalid=${problem === null ? undefined : 'true'}
            />
            <p id="range" class="hint">
              From <${Sats} amount=${minSat} /> to <${Sats} amount=${maxSat} />
            </p>
            ${data.maxCommentLength > 0 && html`<${CommentField} ...${data} />`}
            <button type="submit">Create invoice</button>
          </form>
        </section>
      </div>
    `,
  };
}

function CommentField({ comment, maxCommentLength }: PaymentPageData) {
  return html`
    <label for="comment">Comment (optional)</label>
    <textarea id="comment" name="comment" rows="2" maxlength=${maxCommentLength}>${comment}</textarea>
  `;
}
