import './common.ts';
import { find } from './common.ts';
import { readRetryAfterMs } from './retry-after.ts';

/** Fast enough to show a payment within two seconds. */
const POLL_INTERVAL_MS = 1_000;

/** After the invoice expired, a payment that was under way may still arrive. */
const EXPIRED_POLL_INTERVAL_MS = 10_000;

/** While the tab is hidden, the interval doubles up to this. */
const MAX_HIDDEN_POLL_INTERVAL_MS = 60_000;

/** A connection may hang after the device slept or changed its network. */
const RESPONSE_TIMEOUT_MS = 10_000;

interface WebLn {
  enable(): Promise<void>;
  sendPayment(request: string): Promise<unknown>;
}

type Status = 'paid' | 'waiting' | 'expired';

const invoice = find('invoice', HTMLElement);
const statusText = find('status', HTMLElement);
const connectionText = find('connection', HTMLElement);
const expiry = find('expiry', HTMLElement);
const weblnButton = find('webln-button', HTMLButtonElement);
const weblnProblem = find('webln-problem', HTMLElement);
const expiresAtMs = Number(invoice.dataset['expiresAt']);
const verifyUrl = invoice.dataset['verify'] ?? '';

let status = invoice.dataset['status'] as Status;
/** How far the server's clock is ahead of this device's clock, which may be wrong. Undefined before the first poll. */
let clockOffsetMs: number | undefined;
let hiddenIntervalMs = POLL_INTERVAL_MS;
let pollTimer: ReturnType<typeof setTimeout> | undefined;
let countdownTimer: ReturnType<typeof setTimeout> | undefined;

function showStatus(newStatus: Status, announcement: string): void {
  status = newStatus;
  invoice.dataset['status'] = newStatus;
  statusText.textContent = announcement;
  for (const section of invoice.querySelectorAll<HTMLElement>('[data-section]')) {
    section.hidden = section.dataset['section'] !== newStatus;
  }
}

async function poll(): Promise<void> {
  clearTimeout(pollTimer);
  let retryAfterMs = 0;
  let isSettled = false;
  try {
    const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS);
    const response = await fetch(verifyUrl, { cache: 'no-store', signal });
    clockOffsetMs ??= Date.parse(response.headers.get('date') ?? '') - Date.now() || 0;
    retryAfterMs = readRetryAfterMs(response, 0);
    const body: { settled?: boolean } = await response.json();
    isSettled = body.settled === true;
    connectionText.hidden = true;
  } catch {
    // A later request may have succeeded in the meantime.
    connectionText.hidden = status === 'paid';
  }
  if (status === 'paid') {
    return;
  }
  if (isSettled) {
    clearTimeout(countdownTimer);
    document.title = `Paid · ${document.title}`;
    showStatus('paid', 'The payment has arrived.');
    return;
  }
  clearTimeout(pollTimer);
  pollTimer = setTimeout(poll, Math.max(chooseIntervalMs(), retryAfterMs));
}

function chooseIntervalMs(): number {
  if (document.hidden) {
    hiddenIntervalMs = Math.min(2 * hiddenIntervalMs, MAX_HIDDEN_POLL_INTERVAL_MS);
    return hiddenIntervalMs;
  }
  hiddenIntervalMs = POLL_INTERVAL_MS;
  return status === 'expired' ? EXPIRED_POLL_INTERVAL_MS : POLL_INTERVAL_MS;
}

function showCountdown(): void {
  const secondsLeft = Math.ceil((expiresAtMs - Date.now() - (clockOffsetMs ?? 0)) / 1_000);
  if (secondsLeft <= 0) {
    showStatus('expired', 'The invoice has expired.');
    return;
  }
  expiry.textContent = `Expires in ${formatClock(secondsLeft)}`;
  countdownTimer = setTimeout(showCountdown, 1_000);
}

/** Formats as `59:30`, or `23:59:30` for an hour and more. */
function formatClock(seconds: number): string {
  const hours = Math.floor(seconds / 3_600);
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60];
  return (hours === 0 ? parts : [hours, ...parts])
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}

function offerWebLn(): void {
  const { webln } = globalThis as { webln?: WebLn };
  if (webln === undefined) {
    return;
  }
  weblnButton.hidden = false;
  weblnButton.onclick = async () => {
    weblnButton.disabled = true;
    weblnProblem.hidden = true;
    try {
      await webln.enable();
      await webln.sendPayment(find('request', HTMLElement).textContent ?? '');
    } catch (error) {
      const reason = error instanceof Error ? error.message : '';
      weblnProblem.textContent = `The browser’s wallet did not pay. ${reason}`;
      weblnProblem.hidden = false;
    } finally {
      weblnButton.disabled = false;
    }
  };
}

if (status !== 'paid') {
  void poll().then(() => status === 'waiting' && showCountdown());
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && status !== 'paid') {
      void poll();
    }
  });
}
if (status === 'waiting') {
  offerWebLn();
  addEventListener('webln:ready', offerWebLn);
}
