/**
 * What is secret, wherever it turns up: the one list that the log and the answers that tell of an
 * error go by. It works on text, because that is what leaves the process: a field of a log line, a
 * message, a stack or the words of a mint are all the same to it.
 *
 * It is the last line, not the first. Whoever writes a log line leaves secrets out; a token that stands
 * alone and has no shape of its own (64 hex digits, a UUID) cannot be told from a key or a hash.
 */

/** Stands where something secret stood. */
export const REDACTED = '[redacted]';

/** Names of fields and of parameters in a query, in any case; `_?` stands in names of several words. */
const SECRET_NAMES: readonly string[] = [
  // Who somebody is, or may act for.
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  '(?:access_?)?token',
  'jwt',
  'password',
  'sig(?:nature)?',
  // Keys, ours and those of others; as settings of ours too.
  '(?:jwt_?|treasury_?)?secret',
  'jwt_?secret_?previous',
  '(?:zap_?)?secret_?key',
  'private_?key',
  'nsec',
  'database_?url',
  'connection_?string',
  // Who knows the id of an unlocked quote can mint its money; a verify token tells whether it was paid.
  'quote(?:_?ids?)?',
  'verify_?token',
  // Ecash: what proofs (NUT-00), their blinding (NUT-12) and conditions (NUT-10) are made of.
  'x-cashu',
  'proofs?',
  'c_?',
  'b_',
  'r',
  'dleq',
  'witness',
  'nonce',
  'blinding_?factors?',
  // Proves that somebody paid.
  '(?:payment_?)?preimage',
];

/** A field of JSON with its value. */
const FIELD = fieldPattern('"', String.raw`(?:[^"\\]|\\.)*`);

/** The same within a text of JSON, as where an error quotes a body. */
const INNER_FIELD = fieldPattern(
  String.raw`\\"`,
  String.raw`(?:[^"\\]|\\[^"\\]|\\\\(?:\\["\\]|[^"\\]))*`,
);

/** A text that stands still deeper, up to the next quote: there it is not read any further. */
const DEEPER_FIELD = new RegExp(
  String.raw`(\\{3,63}")(${SECRET_NAMES.join('|')})\1\s{0,4}:\s{0,4}\1(?:[^"\\]|\\+[^"\\])*`,
  'gi',
);

/**
 * What is secret by how it looks; the group is what stands before it and stays. No quote and no
 * backslash is part of it: JSON stays JSON.
 */
const SHAPES: readonly RegExp[] = [
  // An event (NIP-98) or a JWT as it is presented.
  /\b((?:Nostr|Bearer)\s{1,4})[\w.~+/-]{16,}=*/gi,
  // Ecash (NUT-00).
  /()cashu[AB][\w+/-]{8,}=*/g,
  // An event or a JWT by itself, or anything else that is base64 of `{"`.
  /()eyJ[\w.+/-]{16,}=*/g,
  // Keys (NIP-19, NIP-49).
  /()(?:nsec|ncryptsec)1[02-9ac-hj-np-z]{8,}/gi,
  // In an address: the name and password, secret parameters, and what follows in a verify url (LUD-21)
  // or in that of a quote (NUT-04, NUT-05), but for its batch route (NUT-29).
  /(:\/\/)[^\s"\\/?#]+(?=@)/g,
  new RegExp(String.raw`([?&](?:${SECRET_NAMES.join('|')})=)[^\s"\\&#]+`, 'gi'),
  /(\/verify\/)[\w%-]{16,}/gi,
  /(\/(?:mint|melt)\/quote\/[\w-]+\/)(?!check\b)[\w.~%=+-]+/gi,
];

/** Takes all that is secret by its name or by its shape out of a text, JSON or not. JSON stays JSON. */
export function redact(text: string): string {
  const named = text
    .replace(FIELD, `"$1":"${REDACTED}"`)
    .replace(INNER_FIELD, String.raw`\"$1\":\"${REDACTED}\"`)
    .replace(DEEPER_FIELD, `$1$2$1:$1${REDACTED}`);
  return SHAPES.reduce((rest, shape) => rest.replace(shape, `$1${REDACTED}`), named);
}

/** Of a value, what can be matched: a text, even cut off, a number, a list or object of such. */
function fieldPattern(quote: string, characters: string): RegExp {
  const text = quote + characters + quote;
  const values = [
    text,
    quote + characters,
    String.raw`-?\d[\d.eE+-]*`,
    String.raw`\[(?:${text}|[^[\]"\\])*\]`,
    String.raw`\{(?:${text}|[^{}"\\])*\}`,
  ];
  const name = `${quote}(${SECRET_NAMES.join('|')})${quote}`;
  return new RegExp(String.raw`${name}\s{0,4}:\s{0,4}(?:${values.join('|')})`, 'gi');
}
