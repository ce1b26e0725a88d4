export const REDACTED = '[redacted]';

/**
 * Fields whose values are secret, as objects and JSON name them. A quote id is secret because whoever has it can mint
 * the money of an unlocked quote.
 */
export const SECRET_FIELDS: readonly string[] = [
  // Credentials and keys.
  'authorization',
  'token',
  'tokens',
  'password',
  'sig',
  'secret',
  'secretKey',
  'jwtSecret',
  'jwtSecretPrevious',
  'treasurySecret',
  'databaseUrl',
  'connectionString',
  // Quotes.
  'quote',
  'quoteId',
  'quoteIds',
  'quote_id',
  'verifyToken',
  // Ecash.
  'x-cashu',
  'proofs',
  'C',
  'witness',
  'nonce',
  'preimage',
];

const FIELD = SECRET_FIELDS.join('|');

/**
 * Secrets by their shape; the group is what stays before them. No match contains a quote or half an escape sequence, so
 * JSON stays JSON.
 */
const PATTERNS: readonly RegExp[] = [
  // Cashu tokens and Nostr secret keys.
  /()cashu[AB][\w+/=%-]{8,}/g,
  /()(?:nsec|ncryptsec)1[a-z0-9]{8,}/gi,
  // JWTs, and JSON in base64, such as a signed event.
  /()eyJ[\w.+/=%-]{16,}/g,
  /\b((?:Nostr|Bearer)\s+)[\w.~+/=%-]{16,}/gi,
  // In URLs: credentials, secret parameters, quote ids (but not the batch route), verify tokens.
  /(:\/\/)[^\s"\\/?#]+(?=@)/g,
  new RegExp(String.raw`([?&](?:${FIELD})=)[^\s"\\&#]+`, 'gi'),
  /(\/mint\/quote\/\w+\/+)(?!check(?![\w%-]))[\w.~%=-]+/g,
  /(\/verify\/+)[\w%-]{16,}/g,
  // A text value of JSON, also within JSON that is quoted in a message.
  new RegExp(String.raw`("(?:${FIELD})\\*"\s*:\s*\\*")[^"\\]+`, 'gi'),
];

/** Replaces the secrets in a text, for logs and error messages. The last line of defence: do not log secrets. */
export function redact(text: string): string {
  return PATTERNS.reduce((rest, pattern) => rest.replace(pattern, `$1${REDACTED}`), text);
}
