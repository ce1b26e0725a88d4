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

for (const link of document.querySelectorAll<HTMLElement>('[data-amount]')) {
  link.addEventListener('click', (event) => {
    event.preventDefault();
    getElement('amount', HTMLInputElement).value = link.dataset['amount'] ?? '';
  });
}
