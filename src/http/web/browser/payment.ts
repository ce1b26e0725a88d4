import './common.ts';
import { find } from './common.ts';

const form = find('payment-form', HTMLFormElement);
const button = form.querySelector('button');

form.addEventListener('submit', () => setBusy(true));

// Also when the payer returns to this page with the back button, and the browser has kept its state.
addEventListener('pageshow', () => setBusy(false));

/** Prevents a second invoice while the mint creates the first one. */
function setBusy(isBusy: boolean): void {
  if (button !== null) {
    button.disabled = isBusy;
    button.textContent = isBusy ? 'Creating the invoice…' : 'Create invoice';
  }
}
