export const REDACTED = '[redacted]';

/** Quote ids are secret because anyone who knows one can mint an unlocked quote. */
export const SECRET_FIELDS: readonly string[] = [
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
  'quote',
  'quoteId',
  'quoteIds',
  'quote_id',
  'verifyToken',
  'x-cashu',
  'proofs',
  'sealedProofs',
  'C',
  'witness',
  'nonce',
  'preimage',
];

const SECRET_FIELD_PATTERN = SECRET_FIELDS.join('|');

/**
 * {@link redact} keeps the first capture group and replaces the rest of the match. No match contains a quotation mark
 * or part of an escape sequence, so that JSON remains valid.
 */
const SECRET_PATTERNS: readonly RegExp[] = [
  // Cashu tokens and Nostr secret keys.
  /()cashu[AB][\w+/=%-]{8,}/g,
  /()(?:nsec|ncryptsec)1[a-z0-9]{8,}/gi,
  // JWTs and base64 JSON, such as signed events.
  /()eyJ[\w.+/=%-]{16,}/g,
  /\b((?:Nostr|Bearer)\s+)[\w.~+/=%-]{16,}/gi,
  // In URLs: credentials, secret parameters, quote ids (but not the batch route `check`), verify tokens (also of invoice pages).
  /(:\/\/)[^\s"\\/?#]+(?=@)/g,
  new RegExp(String.raw`([?&](?:${SECRET_FIELD_PATTERN})=)[^\s"\\&#]+`, 'gi'),
  /(\/mint\/quote\/\w+\/+)(?!check(?![\w%-]))[\w.~%=-]+/g,
  /(\/(?:verify|invoice)\/+)[\w%-]{16,}/g,
  // String values of JSON fields, also if the JSON is escaped within another string.
  new RegExp(String.raw`("(?:${SECRET_FIELD_PATTERN})\\*"\s*:\s*\\*")[^"\\]+`, 'gi'),
];

/** A last line of defence: do not log secrets. */
export function redact(text: string): string {
  return SECRET_PATTERNS.reduce(
    (redacted, pattern) => redacted.replace(pattern, `$1${REDACTED}`),
    text,
  );
}
