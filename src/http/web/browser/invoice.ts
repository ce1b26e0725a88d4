import { formatTimeLeft } from '../expiry.ts';
import { getElement } from './common.ts';
import { showFormProgress } from './form-progress.ts';
import { pause } from './pause.ts';
import { readRetryAfterMs } from './retry-after.ts';
import { getText } from './texts.ts';

const POLL_INTERVAL_MS = 1_000;

/** Used while the tab is hidden, and after the expiry, when a payment that was under way may still arrive. */
const SLOW_POLL_INTERVAL_MS = 10_000;

/** A connection may hang after the device slept. */
const RESPONSE_TIMEOUT_MS = 5_000;

const invoice = getElement('invoice', HTMLElement);
const connectionText = getElement('connection', HTMLElement);
const expiry = getElement('expiry', HTMLElement);
const paidAt = getElement('paid-at', HTMLTimeElement);
const weblnButton = getElement('webln-button', HTMLButtonElement);
const weblnProblem = getElement('webln-problem', HTMLElement);
const verifyUrl = invoice.dataset['verify'] ?? '';

let status = invoice.dataset['status'];
let countdownTimer: ReturnType<typeof setTimeout> | undefined;

async function pollUntilPaid(): Promise<void> {
  while (status !== 'paid') {
    let retryAfterMs = 0;
    try {
      const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
      const response = await fetch(verifyUrl, { cache: 'no-store', signal });
      retryAfterMs = readRetryAfterMs(response.headers, 0);
      const body: { settled?: boolean } = await response.json();
      connectionText.hidden = true;
      if (body.settled === true) {
        clearTimeout(countdownTimer);
        showPaidAt(new Date());
        document.title = getText('script.invoice.paidTitle', { title: document.title });
        showStatus('paid', getText('script.invoice.paid'));
        return;
      }
      if (status === 'waiting' && countdownTimer === undefined) {
        // The clock of this device may be wrong, so the server's clock decides how much time is left.
        const serverNowMs = Date.parse(response.headers.get('date') ?? '') || Date.now();
        showCountdown(Date.now() + Number(invoice.dataset['expiresAt']) - serverNowMs);
      }
    } catch {
      connectionText.hidden = false;
    }
    const isSlow = document.hidden || status === 'expired';
    await pause(Math.max(isSlow ? SLOW_POLL_INTERVAL_MS : POLL_INTERVAL_MS, retryAfterMs));
  }
}

function showStatus(newStatus: 'paid' | 'expired', announcement: string): void {
  status = newStatus;
  invoice.dataset['status'] = newStatus;
  getElement('status', HTMLElement).textContent = announcement;
  for (const section of invoice.querySelectorAll<HTMLElement>('[data-section]')) {
    section.hidden = section.dataset['section'] !== newStatus;
  }
}

function showPaidAt(date: Date): void {
  paidAt.dateTime = date.toISOString();
  const { lang } = document.documentElement;
  paidAt.textContent = date.toLocaleString(lang, { dateStyle: 'long', timeStyle: 'short' });
}

/** @param endMs according to the clock of this device */
function showCountdown(endMs: number): void {
  const secondsLeft = Math.ceil((endMs - Date.now()) / 1_000);
  if (secondsLeft <= 0) {
    showStatus('expired', getText('script.invoice.expired'));
    return;
  }
  const time = formatTimeLeft(secondsLeft, document.documentElement.lang);
  expiry.textContent = getText('script.invoice.expiresIn', { time });
  countdownTimer = setTimeout(() => showCountdown(endMs), 1_000);
}

interface WebLn {
  enable(): Promise<void>;
  sendPayment(request: string): Promise<unknown>;
}

function offerWebLn(): void {
  const { webln } = globalThis as { webln?: WebLn };
  if (webln === undefined) {
    return;
  }
  weblnButton.hidden = false;
  weblnButton.onclick = async () => {
    // A disabled button would lose the focus.
    if (weblnButton.ariaDisabled === 'true') {
      return;
    }
    weblnButton.ariaDisabled = 'true';
    weblnProblem.hidden = true;
    try {
      await webln.enable();
      await webln.sendPayment(getElement('request', HTMLElement).textContent ?? '');
    } catch (error) {
      const reason = error instanceof Error ? error.message : '';
      weblnProblem.textContent = getText('script.invoice.webLnFailed', { reason });
      weblnProblem.hidden = false;
    } finally {
      weblnButton.ariaDisabled = null;
    }
  };
}

/** The print style sheet shows the receipt alone. Browsers can save it as a PDF file. */
function offerReceipt(): void {
  const saveButton = getElement('save-receipt', HTMLButtonElement);
  saveButton.hidden = false;
  saveButton.onclick = () => print();
  const shareButton = getElement('share-receipt', HTMLButtonElement);
  shareButton.hidden = !('share' in navigator);
  // The promise rejects if the user closes the dialog.
  shareButton.onclick = () =>
    navigator.share({ title: document.title, url: location.href }).catch(() => undefined);
}

offerReceipt();
if (paidAt.dateTime !== '') {
  showPaidAt(new Date(paidAt.dateTime));
}
showFormProgress(getElement('renew', HTMLButtonElement));
void pollUntilPaid();
if (status === 'waiting') {
  offerWebLn();
  addEventListener('webln:ready', offerWebLn);
}
