import { type FiatRate, formatInCurrencies, parseAmountInSats } from '../amount.ts';
import { getElement } from './common.ts';
import { showFormProgress } from './form-progress.ts';
import { formatNumber, getText } from './texts.ts';

const comment = document.querySelector('textarea');

/** Counts code points, as the server does. */
function showRemainingCharacters(field: HTMLTextAreaElement): void {
  const hint = getElement('comment-length', HTMLElement);
  const remaining = Number(hint.dataset['maxLength']) - [...field.value].length;
  const isTooLong = remaining < 0;
  const count = formatNumber(Math.abs(remaining));
  hint.textContent = getText(isTooLong ? 'script.payment.tooMany' : 'script.payment.left', {
    count,
  });
  hint.classList.toggle('too-long', isTooLong);
  field.setCustomValidity(isTooLong ? getText('script.payment.shorten', { count }) : '');
}

showFormProgress(getElement('create-invoice', HTMLButtonElement));
if (comment !== null) {
  const showRemaining = () => showRemainingCharacters(comment);
  comment.addEventListener('input', showRemaining);
  // The browser has restored the text when the payer comes back to the page.
  addEventListener('pageshow', showRemaining);
}

const amount = getElement('amount', HTMLInputElement);
const unit = document.querySelector('select');

for (const link of document.querySelectorAll<HTMLElement>('[data-amount]')) {
  link.addEventListener('click', (event) => {
    event.preventDefault();
    amount.value = link.dataset['amount'] ?? '';
    if (unit !== null) {
      unit.value = 'sats';
      unit.dispatchEvent(new Event('change'));
    }
  });
}

/** Shows what the entered amount is worth. The server converts it again. */
function showWorth(select: HTMLSelectElement): void {
  const element = getElement('worth', HTMLElement);
  const example = element.textContent;
  const rates: FiatRate[] = JSON.parse(select.dataset['rates'] ?? '[]');
  const update = () => {
    // The key of a problem becomes NaN.
    const sats = Number(parseAmountInSats(amount.value, select.value, rates));
    const worth = formatInCurrencies(sats, rates, document.documentElement.lang);
    const isAmount = sats > 0 && Number.isSafeInteger(sats);
    const values = { sats: formatNumber(sats), worth };
    element.textContent = isAmount ? getText('script.payment.worth', values) : example;
  };
  amount.addEventListener('input', update);
  select.addEventListener('change', update);
  addEventListener('pageshow', update);
}

if (unit !== null) {
  showWorth(unit);
}
