import { getText } from './texts.ts';

/** Shows that a form was sent, and prevents a second invoice while the mint creates the first one. */
export function showFormProgress(button: HTMLButtonElement): void {
  const label = button.textContent;
  let isBusy = false;
  const setBusy = (busy: boolean) => {
    isBusy = busy;
    button.ariaBusy = String(busy);
    button.ariaDisabled = String(busy);
    button.textContent = busy ? getText('script.common.creatingInvoice') : label;
  };
  button.form?.addEventListener('submit', (event) => {
    if (isBusy) {
      event.preventDefault();
    }
    setBusy(true);
  });
  // After the back button, the browser may show the page again as it was when the payer left it.
  addEventListener('pageshow', () => setBusy(false));
}
