import { html } from 'htm/preact';
import type { SatRange } from './amount.ts';
import {
  buildLnurlUri,
  buildPaymentQrText,
  CopyableText,
  QrCode,
  Sats,
  Section,
} from './elements.ts';
import { type Page, shortenAddress } from './layout.ts';
import type { FormProblem, PaymentInput } from './payment-form.ts';

export interface Payee {
  origin: string;
  /** In lower case, with the tag. */
  localPart: string;
  /** The local part and the host of the request. */
  address: string;
  /** What the payee calls themselves on Nostr. The label and a line of its own mark it, because it can be any text. */
  profileName?: string | null | undefined;
}

interface PaymentFormState extends PaymentInput {
  /** Null if unknown, because the database or the mint does not respond. */
  range: SatRange | null;
  /** Amounts of the buttons. Those outside the range are left out. */
  amountsSat: readonly number[];
  /** 0: payers cannot send comments. */
  maxCommentLength: number;
  problem: FormProblem | null;
}

export function paymentPage(payee: Payee, form: PaymentFormState): Page {
  const { origin, localPart, address, profileName } = payee;
  const { range, problem } = form;
  return {
    title: `${problem === null ? '' : 'Error: '}Pay ${address}`,
    description: `Send sats to ${address} from any Lightning wallet.`,
    url: `${origin}/${localPart}`,
    previewImage: `${origin}/${localPart}/preview.png`,
    script: 'payment',
    content: html`
      <h1><small>Pay</small> ${shortenAddress(address)}</h1>
      ${profileName && html`<p class="profile">Nostr profile: <bdi>${profileName}</bdi></p>`}
      <div class="columns">
        <${Section} title="How much?">
          <form method="post" action=${`/${localPart}`}>
            <label for="amount">Amount in sats</label>
            <input
              id="amount"
              name="amount"
              inputmode="numeric"
              required
              value=${form.amount}
              aria-describedby="range amount-problem"
              aria-invalid=${problem?.field === 'amount'}
              autofocus=${problem?.field === 'amount'}
            />
            <${Problem} field="amount" problem=${problem} />
            ${
              range !== null &&
              html`<p id="range" class="hint">
                From <${Sats} amount=${range.minSat} /> to <${Sats} amount=${range.maxSat} />
              </p>`
            }
            <${AmountLinks} path=${`/${localPart}`} ...${form} />
            ${form.maxCommentLength > 0 && html`<${CommentField} ...${form} />`}
            <${Problem} field=${null} problem=${problem} />
            <button
              type="submit"
              id="create-invoice"
              class="wide"
              autofocus=${problem !== null && problem.field === null}
            >
              Create invoice
            </button>
          </form>
        <//>
        <${Section} title="Or scan or copy">
          <${QrCode}
            text=${buildPaymentQrText(origin, localPart)}
            label=${`QR code of the Lightning address ${address}`}
          />
          <${CopyableText} id="address" text=${address} label="Copy address">
            <a class="button secondary" href=${buildLnurlUri(origin, localPart)}>Open in wallet</a>
          <//>
        <//>
      </div>
    `,
  };
}

/** Links fill in the form without JavaScript. `browser/payment.ts` keeps the comment. */
function AmountLinks({ path, amountsSat, range }: PaymentFormState & { path: string }) {
  const amounts = amountsSat.filter(
    (amount) => range === null || (amount >= range.minSat && amount <= range.maxSat),
  );
  return (
    amounts.length > 0 &&
    html`
      <p class="amounts">
        ${amounts.map(
          (amount) => html`
            <a class="button secondary" href=${`${path}?amount=${amount}`} data-amount=${amount}>
              <data value=${amount} data-sats>${amount.toLocaleString('en')}</data>
              <span class="visually-hidden">${' sats'}</span>
            </a>
          `,
        )}
      </p>
    `
  );
}

/** `browser/payment.ts` shows how many characters are left. A `maxlength` would cut a longer text silently. */
function CommentField({ comment, maxCommentLength, problem }: PaymentFormState) {
  return html`
    <div class="row spread">
      <label for="comment">Comment (optional)</label>
      <span id="comment-length" class="hint" data-max-length=${maxCommentLength}>
        at most ${maxCommentLength}
      </span>
    </div>
    <textarea
      id="comment"
      name="comment"
      rows="2"
      aria-describedby="comment-length comment-problem"
      aria-invalid=${problem?.field === 'comment'}
      autofocus=${problem?.field === 'comment'}
    >${comment}</textarea>
    <${Problem} field="comment" problem=${problem} />
  `;
}

function Problem({ field, problem }: { field: FormProblem['field']; problem: FormProblem | null }) {
  return (
    problem?.field === field &&
    html`<p id=${`${field ?? 'form'}-problem`} class="problem" role="alert">${problem.text}</p>`
  );
}
