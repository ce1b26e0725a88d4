import { find } from './common.ts';

const button = find('create-invoice', HTMLButtonElement);

/** Prevents a second invoice while the mint creates the first one. */
function setBusy(isBusy: boolean): void {
  button.disabled = isBusy;
  button.textContent = isBusy ? 'Creating the invoice…' : 'Create invoice';
}

button.form?.addEventListener('submit', () => setBusy(true));

// Also when the payer returns to this page with the back button, and the browser has kept its state.
addEventListener('pageshow', () => setBusy(false));
