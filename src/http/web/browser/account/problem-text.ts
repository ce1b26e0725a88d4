import type { ErrorCode } from '../../../../errors.ts';
import { MAX_TOKEN_LENGTH } from '../../../../usernames/limits.ts';
import type { TextKey } from '../../translation.ts';
import { describeUnexpected, ExplainedError } from '../explained-error.ts';
import { readRetryAfterMs } from '../retry-after.ts';
import { t } from '../translator.ts';
import { ApiError } from './api-client.ts';

/** What codes of the API mean, if they say enough. The messages of the API are in English, and for programs too. */
const TEXTS: { readonly [code in ErrorCode]?: TextKey } = {
  locking_unsupported: 'account.lockingUnsupported',
  mint_not_allowed: 'account.mintNotAllowed',
  not_a_member: 'account.membersOnly',
  invitation_invalid: 'account.invitationInvalid',
  name_invalid: 'account.nameInvalid',
  name_reserved: 'account.nameReserved',
  name_taken: 'account.nameOfOther',
  name_not_for_sale: 'account.namesNotForSale',
  // For these, the page adds when to try again.
  database_unavailable: 'account.serverProblem',
  unavailable: 'account.mintProblem',
  purchase_in_progress: 'account.purchaseInProgress',
};

const DEFAULT_RETRY_SECONDS = 60;

export function describeProblem(error: unknown): string {
  if (isOutcomeUnknown(error)) {
    return t('account.noResponse');
  }
  if (!(error instanceof ApiError)) {
    return describeUnexpected(error);
  }
  const { code, status, headers } = error;
  const problem = describeApiError(error);
  if (code === 'unauthorized') {
    return isClockWrong(error) ? t('account.wrongClock') : t('account.signInAgain', { problem });
  }
  // Rare, because the page has shown a preview of the mint.
  if (code === 'mint_unusable') {
    return t('account.mintNotSaved', { problem: t('account.mintUnavailable') });
  }
  if (status === 429) {
    const seconds = readRetryAfterMs(headers, DEFAULT_RETRY_SECONDS) / 1_000;
    return t('account.rateLimited', { seconds });
  }
  return status >= 500 ? t('account.retry', { problem }) : problem;
}

function describeApiError({ code, message }: ApiError): string {
  const key = code === null ? undefined : TEXTS[code];
  return key === undefined ? t('account.serverSays', { reason: message }) : t(key);
}

/** Signatures are valid for a minute. */
function isClockWrong({ headers }: ApiError): boolean {
  return Math.abs(Date.now() - Date.parse(headers.get('date') ?? '')) > 60_000;
}

const PAYMENT_ADVICE: { readonly [code in ErrorCode]?: TextKey } = {
  // The token may be spent or not.
  payment_required: 'account.tokenNotUsed',
  // An earlier token has already begun this purchase.
  token_not_used: 'account.earlierToken',
};

/** Explains why a username was not bought with a token, which is still in the user's field. */
export function describePaymentProblem(error: unknown): string {
  if (isOutcomeUnknown(error)) {
    return t('account.purchaseUnknown');
  }
  if (error instanceof ExplainedError) {
    return error.message;
  }
  if (error instanceof ApiError) {
    const { code, status, message } = error;
    // A proxy sends no code. The server sends `too_large` if all headers together are too long.
    if (code === 'too_large' || status === 413 || status === 431) {
      return t('account.tokenTooLong');
    }
    if (status >= 500) {
      return t('account.buyAgain', { problem: describeApiError(error) });
    }
    const advice = code === null ? undefined : PAYMENT_ADVICE[code];
    if (advice !== undefined) {
      return t(advice, { problem: message });
    }
  }
  return t('account.tokenStillThere', { problem: describeProblem(error) });
}

/** Whether there was no complete response, so the server may have executed the request or not. */
export function isOutcomeUnknown(error: unknown): boolean {
  // `fetch` fails with a TypeError. So does reading a response that was cut off.
  return (
    error instanceof TypeError || (error instanceof DOMException && error.name === 'TimeoutError')
  );
}

/** Explains why locking was not turned on or off. */
export function describeLockProblem(error: unknown): string {
  const isUnsupported = error instanceof ApiError && error.code === 'locking_unsupported';
  return isUnsupported ? t('account.mintCannotLock') : describeProblem(error);
}

/** Returns why an entered address cannot be that of a mint, or null. The server checks everything else. */
export function findMintUrlProblem(url: string): string | null {
  if (url === '') {
    return t('account.mintUrlEmpty');
  }
  // Chromium accepts spaces in host names.
  if (/\s/.test(url) || !URL.canParse(url)) {
    return t('account.mintUrlInvalid');
  }
  return /^https?:/i.test(url) ? null : t('account.mintUrlScheme');
}

/** @param reason from the API, whose later versions may add reasons */
export function describeMintProblem(reason: string): string {
  return t(MINT_PROBLEMS[reason] ?? 'account.mintUnavailable');
}

const MINT_PROBLEMS: { readonly [reason: string]: TextKey } = {
  invalid_url: 'account.mintInvalidUrl',
  not_found: 'account.mintNotFound',
  refused: 'account.mintRefused',
  timeout: 'account.mintTimeout',
  redirect: 'account.mintRedirect',
  not_a_mint: 'account.notAMint',
  no_sats: 'account.mintNoSats',
  not_allowed: 'account.mintNotAllowed',
};

/** Returns a token without the line breaks that some programs add. Throws if a text cannot be sent as a token. */
export function parseToken(text: string): string {
  const token = text.replace(/\s+/g, '');
  if (!/^(?:cashu:(?:\/\/)?)?cashu[AB][!-~]+$/.test(token)) {
    throw new ExplainedError(t('account.tokenInvalid'));
  }
  // A proxy may drop a request with such a token without a response. Then the user could not know whether it was spent.
  if (token.length > MAX_TOKEN_LENGTH) {
    throw new ExplainedError(t('account.tokenTooLong'));
  }
  return token;
}
