import type { ErrorCode } from '../../../../errors.ts';
import { MAX_TOKEN_LENGTH } from '../../../../usernames/limits.ts';
import { ApiError } from './api-client.ts';

const RETRY = ' Try again in a minute.';

const ADVICE: { readonly [code in ErrorCode]?: string } = {
  unauthorized: ' Sign out, then sign in again.',
  internal: RETRY,
  unavailable: RETRY,
  name_invalid: ' Choose another name.',
  name_reserved: ' Choose another name, or ask the operator of this server.',
  name_taken: ' Choose another name.',
  purchase_in_progress: ' Try again in a minute; you need no other token.',
};

export function describeProblem(error: unknown): string {
  if (isOutcomeUnknown(error)) {
    return 'The server did not respond. Check your internet connection and try again.';
  }
  if (!(error instanceof ApiError)) {
    return error instanceof Error ? error.message : String(error);
  }
  const { code, status, message } = error;
  if (code === 'unauthorized' && isClockWrong(error)) {
    return 'The clock of this device is wrong. Set it, then sign in again.';
  }
  if (code === 'locking_unsupported') {
    return 'This mint cannot lock payments. Choose another mint, or turn off “Lock payments”.';
  }
  // Rare, because the page has shown a preview of the mint.
  if (code === 'mint_unusable') {
    return `${MINT_PROBLEMS['unavailable']} Nothing was changed.`;
  }
  if (code === null) {
    const isTemporary = status === 429 || status >= 500;
    return `${message}${isTemporary ? RETRY : ''}`;
  }
  return `${message}${ADVICE[code] ?? ''}`;
}

/** Signatures are valid for a minute. */
function isClockWrong({ headers }: ApiError): boolean {
  return Math.abs(Date.now() - Date.parse(headers.get('date') ?? '')) > 60_000;
}

const PAYMENT_ADVICE: { readonly [code in ErrorCode]?: string } = {
  // The token may be spent or not.
  payment_required:
    ' The name was not bought, and this attempt did not use the token. Paste another one that pays the request.',
  // An earlier token has already begun this purchase.
  token_not_used:
    ' Take it back into your wallet. Then paste the first token again, which is not spent twice, and press “Buy”.',
};

/** Explains why a username was not bought with a token, which is still in the user's field. */
export function describePaymentProblem(error: unknown): string {
  if (isOutcomeUnknown(error)) {
    return (
      'The server did not respond, so it is not known whether you have bought the name. Press “Buy” again with ' +
      'the same token: it is not spent twice.'
    );
  }
  if (error instanceof ApiError) {
    const { code, status, message } = error;
    // A proxy sends no code. The server sends `too_large` if all headers together are too long.
    if (code === 'too_large' || status === 413 || status === 431) {
      return TOKEN_TOO_LONG;
    }
    if (status >= 500) {
      return `${message} Press “Buy” again in a minute with the same token: it is not spent twice.`;
    }
    if (code !== null && code in PAYMENT_ADVICE) {
      return `${message}${PAYMENT_ADVICE[code]}`;
    }
  }
  return `${describeProblem(error)} Your token is still in the field.`;
}

const TOKEN_TOO_LONG =
  'The token is too long for this server. Receive it in your wallet, and create a new token there: it usually ' +
  'consists of fewer parts.';

/** Whether there was no complete response, so the server may have executed the request or not. */
export function isOutcomeUnknown(error: unknown): boolean {
  // `fetch` fails with a TypeError. So does reading a response that was cut off.
  return (
    error instanceof TypeError || (error instanceof DOMException && error.name === 'TimeoutError')
  );
}

/** Returns why an entered address cannot be that of a mint, or null. The server checks everything else. */
export function findMintUrlProblem(url: string): string | null {
  if (url === '') {
    return 'Enter the address of a mint, such as https://mint.example.';
  }
  // Chromium accepts spaces in host names.
  if (/\s/.test(url) || !URL.canParse(url)) {
    return 'This is not a web address. The address of a mint looks like https://mint.example.';
  }
  return /^https?:/i.test(url) ? null : 'The address of a mint starts with https://.';
}

/** @param reason from the API, whose later versions may add reasons */
export function describeMintProblem(reason: string): string {
  return MINT_PROBLEMS[reason] ?? MINT_PROBLEMS['unavailable'];
}

const MINT_PROBLEMS: { readonly [reason: string]: string; unavailable: string } = {
  invalid_url:
    'The address of a mint looks like https://mint.example. It has no password, and no “?” or “#”.',
  not_found: 'There is no mint at this address. Check the spelling.',
  refused: 'No program accepts connections at this address. Check it, or try again later.',
  timeout: 'The mint did not respond in time. Try again later, or choose another mint.',
  redirect: 'This address leads to another one. Enter the address of the mint itself.',
  not_a_mint:
    'The server at this address is not a mint. Check the whole address, including its path.',
  no_sats: 'This mint accepts no Lightning payments in sats. Choose another mint.',
  unavailable: 'The mint does not work at the moment. Try again later, or choose another mint.',
};

/** Returns why a text cannot be sent as a token, or null. The server checks everything else. */
export function findTokenProblem(token: string): string | null {
  if (token === '') {
    return 'Paste a token first. Your wallet creates it when it pays the request.';
  }
  if (/^(?:cashu:)?creq/i.test(token)) {
    return 'This is a payment request. Pay it with your wallet, and paste the token that the wallet creates.';
  }
  if (!/^[!-~]+$/.test(token)) {
    return 'This is not a Cashu token. A token begins with cashuA or cashuB.';
  }
  // A proxy may drop a request with such a token without a response. Then the user could not know whether it was spent.
  return token.length > MAX_TOKEN_LENGTH ? TOKEN_TOO_LONG : null;
}
