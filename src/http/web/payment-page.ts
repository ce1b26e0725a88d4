import { html } from 'htm/preact';
import type { Profile } from '../../zaps/profile-cache.ts';
import { formatInCurrencies, type SatRange } from './amount.ts';
import {
  buildLnurlUri,
  buildPaymentQrText,
  CopyableText,
  QrCode,
  Section,
  small,
} from './elements.ts';
import type { CurrentRates } from './fiat-rates.ts';
import { breakableAddress, type Page } from './layout.ts';
import type { PageLanguage } from './page-language.ts';
import type { FormProblem, PaymentInput } from './payment-form.ts';

export interface Payee {
  origin: string;
  /** In lower case, with the tag. */
  localPart: string;
  /** The local part and the host of the request. */
  address: string;
  /** What the payee calls themselves on Nostr. The label and a line of its own mark it, because it can be any text. */
  profile?: Profile | null;
}

interface PaymentFormState extends PaymentInput {
  /** Null if unknown, because the database or the mint does not respond. */
  range: SatRange | null;
  /** Amounts of the buttons. Those outside the range are left out. */
  amountsSat: readonly number[];
  /** 0: payers cannot send comments. */
  maxCommentLength: number;
  /** At most one for each field. */
  problems: readonly FormProblem[];
  /** Null: payers enter amounts in sats. */
  fiat: CurrentRates | null;
}

export function paymentPage(language: PageLanguage, payee: Payee, form: PaymentFormState): Page {
  const { t, rich, link } = language;
  const { origin, localPart, address } = payee;
  const { range, problems, fiat } = form;
  const path = `/${localPart}`;
  const title = t('pay.title', { address });
  const part = { ...form, language };
  const firstField = problems[0]?.field;
  return {
    title: problems.length === 0 ? title : t('site.errorTitle', { title }),
    description: t('pay.description', { address }),
    url: `${origin}${path}`,
    previewImage: `${origin}${path}/preview.png`,
    script: 'payment',
    content: html`
      <h1>${rich('pay.heading', { address: breakableAddress(address), small })}</h1>
      <${ProfileLine} profile=${payee.profile} language=${language} />
      <div class="columns">
        <${Section} title=${t('pay.howMuch')}>
          <form method="post" action=${link(path)}>
            <label for="amount" class=${fiat === null ? '' : 'visually-hidden'}>
              ${t(fiat === null ? 'amount.label' : 'pay.amount')}
            </label>
            <div class="amount">
              <input
                id="amount"
                name="amount"
                inputmode=${fiat === null ? 'numeric' : 'decimal'}
                required
                maxlength="200"
                value=${form.amount}
                aria-describedby="range amount-problem"
                aria-invalid=${firstField === 'amount'}
                autofocus=${firstField === 'amount'}
              />
              ${fiat !== null && html`<${UnitField} language=${language} unit=${form.unit} ...${fiat} />`}
            </div>
            <${Problem} field="amount" ...${part} />
            ${fiat !== null && html`<${Worth} language=${language} amountSat=${1_000} ...${fiat} />`}
            ${
              range !== null &&
              html`<p id="range" class="hint">
                ${t('pay.range', { min: range.minSat, max: range.maxSat })}
              </p>`
            }
            <${AmountLinks} path=${path} ...${part} />
            ${form.maxCommentLength > 0 && html`<${CommentField} ...${part} />`}
            <${Problem} field=${null} ...${part} />
            <button
              type="submit"
              id="create-invoice"
              class="wide"
              autofocus=${firstField === null}
            >
              ${t('pay.createInvoice')}
            </button>
            ${fiat !== null && html`<${RateAge} language=${language} ...${fiat} />`}
          </form>
        <//>
        <${Section} title=${t('pay.scanOrCopy')}>
          <${QrCode}
            text=${buildPaymentQrText(origin, localPart)}
            label=${t('pay.qrCode', { address })}
          />
          <${CopyableText} id="address" text=${address} label=${t('pay.copyAddress')}>
            <a class="button secondary" href=${buildLnurlUri(origin, localPart)}>${t('invoice.openInWallet')}</a>
          <//>
        <//>
      </div>
    `,
  };
}

function ProfileLine({ profile, language }: Pick<Payee, 'profile'> & { language: PageLanguage }) {
  if (!profile) {
    return null;
  }
  const { name, identifier } = profile;
  const values = { name: html`<bdi>${name}</bdi>` };
  return html`
    <p class="profile">
      ${
        identifier === null
          ? language.rich('pay.profile', values)
          : language.rich('pay.confirmedProfile', { ...values, identifier })
      }
    </p>
  `;
}

type PartProps = PaymentFormState & { language: PageLanguage };

interface RateProps extends CurrentRates {
  language: PageLanguage;
}

function UnitField({ language, unit, rates }: RateProps & { unit: string }) {
  return html`
    <select name="unit" aria-label=${language.t('pay.unit')} data-rates=${JSON.stringify(rates)}>
      <option value="sats">${language.t('pay.sats')}</option>
      ${rates.map(({ currency }) => html`<option selected=${currency === unit}>${currency}</option>`)}
    </select>
  `;
}

/** Says what an amount is worth. On the payment page, `browser/payment.ts` replaces it by the amount of the payer. */
export function Worth({ language, amountSat, rates }: RateProps & { amountSat: number }) {
  const worth = formatInCurrencies(amountSat, rates, language.language);
  return html`<p id="worth" class="hint">${language.t('pay.worth', { amount: amountSat, worth })}</p>`;
}

export function RateAge({ language, ageMinutes }: RateProps) {
  return html`<p class="hint">${language.t('pay.exchangeRateAge', { minutes: ageMinutes + 1 })}</p>`;
}

/**
 * Links fill in the form without JavaScript, and keep the comment that the page was loaded with. `browser/payment.ts`
 * keeps what the payer has entered since.
 */
function AmountLinks(props: PartProps & { path: string }) {
  const { language, path, amountsSat, range, comment, maxCommentLength } = props;
  const { t, link } = language;
  // A link with a longer comment could be too long for the server.
  const keepsComment = comment !== '' && [...comment].length <= maxCommentLength;
  const rest = keepsComment ? `&${new URLSearchParams({ comment })}` : '';
  const amounts = amountsSat.filter(
    (amount) => range === null || (amount >= range.minSat && amount <= range.maxSat),
  );
  return (
    amounts.length > 0 &&
    html`
      <p class="amounts">
        ${amounts.map(
          (amount) => html`
            <a
              class="button secondary"
              href=${link(`${path}?amount=${amount}${rest}`)}
              data-amount=${amount}
              aria-label=${t('sats', { amount })}
            >
              ${amount.toLocaleString(language.language)}
            </a>
          `,
        )}
      </p>
    `
  );
}

/**
 * `browser/payment.ts` shows how many characters are left. A `maxlength` cuts silently, so it is longer than any comment
 * that the server accepts.
 */
function CommentField(props: PartProps) {
  const { comment, maxCommentLength, problems } = props;
  const { t } = props.language;
  return html`
    <div class="row spread">
      <label for="comment">${t('pay.comment')}</label>
      <span id="comment-length" class="hint" data-max-length=${maxCommentLength}>
        ${t('pay.commentLength', { count: maxCommentLength })}
      </span>
    </div>
    <textarea
      id="comment"
      name="comment"
      rows="2"
      maxlength="4100"
      aria-describedby="comment-length comment-problem"
      aria-invalid=${problems.some(({ field }) => field === 'comment')}
      autofocus=${problems[0]?.field === 'comment'}
    >${comment}</textarea>
    <${Problem} field="comment" ...${props} />
  `;
}

/** Names limits in sats also in the currency that the payer chose. */
function Problem({
  field,
  problems,
  language,
  fiat,
  unit,
}: PartProps & { field: FormProblem['field'] }) {
  const problem = problems.find((each) => each.field === field);
  if (problem === undefined) {
    return null;
  }
  const { key, values = {} } = problem.message;
  const amount = Number(values['amount']);
  const rates = fiat?.rates.filter(({ currency }) => currency === unit) ?? [];
  const worth = formatInCurrencies(amount, rates, language.language);
  return html`
    <p id=${`${field ?? 'form'}-problem`} class="problem" role="alert">
      ${language.t(key, values)} ${amount > 0 && worth && language.t('pay.worth', { amount, worth })}
    </p>
  `;
}
