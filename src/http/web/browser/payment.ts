import { getElement } from './common.ts';

const button = getElement('create-invoice', HTMLButtonElement);

/** Prevents a second invoice while the mint creates the first one. */
function setBusy(isBusy: boolean): void {
  button.disabled = isBusy;
  button.textContent = isBusy ? 'Creating the invoice…' : 'Create invoice';
}

button.form?.addEventListener('submit', () => setBusy(true));

// After the back button, the browser may show this page again as it was when the payer left it.
addEventListener('pageshow', () => setBusy(false));
