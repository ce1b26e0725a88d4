export const REDACTED = '[redacted]';

/** Names of fields that hold secrets. Quote ids are secret because anyone who knows one can mint an unlocked quote. */
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
 * {@link redact} replaces each match except its first capture group. What it replaces contains no quotation mark and no
 * part of an escape sequence, so that JSON remains valid.
 */
const SECRET_PATTERNS: readonly RegExp[] = [
  // Cashu tokens and Nostr secret keys.
  /()cashu[AB][\w+/=%-]{8,}/g,
  /()(?:nsec|ncryptsec)1[a-z0-9]{8,}/gi,
  // JWTs and base64 JSON, such as signed events. Then other values of the header `Authorization`.
  /()eyJ[\w.+/=%-]{16,}/g,
  /\b((?:Nostr|Bearer)\s+)[\w.~+/=%-]{16,}/gi,
  // Credentials in URLs.
  /(:\/\/)[^\s"\\/?#]+(?=@)/g,
  // Secret parameters of URLs.
  new RegExp(String.raw`([?&](?:${SECRET_FIELD_PATTERN})=)[^\s"\\&#]+`, 'gi'),
  // Quote ids in URLs of mints, but not the batch route `check`.
  /(\/mint\/quote\/\w+\/+)(?!check(?![\w%-]))[\w.~%=-]+/g,
  // Tokens in verify URLs, and in URLs of invoice pages.
  /(\/(?:verify|invoice)\/+)[\w%-]{16,}/g,
  // String values of JSON fields, also if the JSON is escaped within another string.
  new RegExp(String.raw`("(?:${SECRET_FIELD_PATTERN})\\*"\s*:\s*\\*")[^"\\]+`, 'gi'),
];

/** Replaces secrets in a line of the log. This is the last line of defence: callers must not log secrets at all. */
export function redact(text: string): string {
  let redacted = text;
  for (const pattern of SECRET_PATTERNS) {
    redacted = redacted.replace(pattern, `$1${REDACTED}`);
  }
  return redacted;
}
