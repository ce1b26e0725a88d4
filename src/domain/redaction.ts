/**
 * What is secret, wherever it turns up: the one list that the log and the answers that tell of an
 * error go by. It works on text, because that is what leaves the process: a field of a log line, a
 * message, a stack or the words of a mint are all the same to it.
 *
 * It is the last line, not the first. Whoever writes a log line leaves secrets out. By design it lets
 * pass:
 * - what stands alone and has no shape of its own: 64 hex digits or a UUID cannot be told from a key,
 *   a hash or the id of an operation, nor can bytes as numbers that have no secret name;
 * - what is written in a code that it does not read, such as JSON in base64 within other words, or in
 *   percents where letters are too;
 * - of JSON within JSON within JSON, lists and numbers: there only texts are taken out;
 * - a name and a value in plain words, such as `password: abc` without quotes; of what `util.inspect`
 *   prints, lists in lists and a `Map`;
 * - what a line has beyond {@link MAX_TEXT_CHARS}, with everything else there.
 */

/** Stands where something secret stood. */
export const REDACTED = '[redacted]';

/**
 * What a text has beyond this is dropped, not looked at: nothing that is meant to be read is as long, and
 * the engine of regular expressions throws at values of some millions.
 */
export const MAX_TEXT_CHARS = 1_000_000;

/** Names of fields and of parameters in a query, in any case; `_?` stands in names of several words. */
const SECRET_NAMES: readonly string[] = [
  // Who somebody is, or may act for.
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  '(?:access_?)?tokens?',
  'jwt',
  'password',
  'sig(?:nature)?',
  // Keys, ours and those of others; as settings of ours too.
  '(?:jwt_?|treasury_?)?secret',
  'secrets',
  'jwt_?secret_?previous',
  '(?:zap_?)?secret_?key',
  'priv(?:ate)?_?key',
  'seed',
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

const NAME = SECRET_NAMES.join('|');

/** Also as JSON writes line ends and tabs. */
const BLANKS = String.raw`(?:\s|\\+[nrt])*`;

/** A field of JSON with its value, which may be cut off where the text ends. */
const FIELD = fieldPattern('"', String.raw`(?:[^"\\]|\\.)*`, '$');

/** The same within a text of JSON, as where an error quotes a body. */
const INNER_FIELD = fieldPattern(
  String.raw`\\"`,
  String.raw`(?:[^"\\]|\\[^"\\]|\\\\(?:\\["\\]|[^"\\]))*`,
  '(?="|$)',
);

/** A text that stands still deeper, up to the next quote: there it is not read any further. */
const DEEPER_FIELD = new RegExp(
  // It looks back from the second run of backslashes to the first: to begin there would be slow.
  String.raw`"(${NAME})(\\{3,63})(?<=\2"\1\2)"${BLANKS}:${BLANKS}\2"(?:[^"\\]|\\+[^"\\])*`,
  'gi',
);

/** What begins an escape in an address, which may have been escaped itself a few times. */
const PERCENT = '%(?:25){0,4}';
const SLASH = String.raw`(?:\/|${PERCENT}2F)`;
/** Some servers take several for one; JSON may have a backslash before each. */
const SLASHES = String.raw`(?:\\{0,4}${SLASH}){1,8}`;

/** What `util.inspect` prints of a value: a text, bytes, a list or an object. */
const INSPECTED = [
  String.raw`'(?:[^'"\\]|\\.)*'?`,
  '`(?:[^`"\\\\]|\\\\.)*`?',
  String.raw`\\"(?:[^"\\]|\\[^"])*(?:\\")?`,
  String.raw`<Buffer[^<>"\\]*>`,
  String.raw`(?:\w{1,32}\(\d{1,9}\)\s)?\[(?:[^[\]"\\]|\\.)*\]`,
  String.raw`\{(?:[^{}"\\]|\\.)*\}`,
].join('|');

/**
 * What is secret by how it looks; the group is what stands before it and stays. No quote and no half of
 * what a backslash begins is part of it: JSON stays JSON. Percents are part of it, because it may stand
 * in an address.
 */
const SHAPES: readonly RegExp[] = [
  // An event (NIP-98) or a JWT as it is presented.
  /\b((?:Nostr|Bearer)(?:\s|%20|\+){1,4})[\w.~+/%-]{16,}=*/gi,
  // Ecash (NUT-00).
  /()cashu[AB][\w+/%-]{8,}=*/g,
  // An event or a JWT by itself, or anything else that is base64 of `{"`, `[{"` or `["`, or of those with
  // blanks and line ends in them.
  /()(?:eyJ|eyA[gi]|ewo[giJ]|ew0K|W3s[gigK]|WyJ|WyB7|Wwog)[\w.+/%-]{16,}=*/g,
  // Keys (NIP-19, NIP-49).
  /()(?:nsec|ncryptsec)1[02-9ac-hj-np-z]{8,}/gi,
  // In an address: the name and password, secret parameters, fields of JSON in percents, and what follows
  // in a verify url (LUD-21) or in that of a quote (NUT-04, NUT-05), but for its batch route (NUT-29).
  /(:\/\/)[^\s"\\/?#]+(?=@)/g,
  new RegExp(
    String.raw`((?:[?&]|${PERCENT}(?:3F|26))(?:${NAME})(?:=|${PERCENT}3D))[^\s"\\&#]+`,
    'gi',
  ),
  new RegExp(
    String.raw`(${PERCENT}22(?:${NAME})${PERCENT}22(?:\+|${PERCENT}20)*(?::|${PERCENT}3A))[^\s"\\&#]+`,
    'gi',
  ),
  new RegExp(String.raw`(${SLASH}verify${SLASHES})[\w%-]{16,}`, 'gi'),
  new RegExp(
    String.raw`(${SLASH}(?:mint|melt)${SLASHES}quote${SLASHES}[\w-]+${SLASHES})(?!check(?![\w%-]))[\w.~%=+-]+`,
    'gi',
  ),
  // An object as an error's words may quote it. It is looked for at colons, which are few, and from there
  // back to the name: to look for the names themselves would take as long as all the rest.
  new RegExp(String.raw`(:(?<=(?<![\w-])(?:${NAME})'?\s*:)${BLANKS})(?:${INSPECTED})`, 'gis'),
];

/**
 * Takes all that is secret by its name or by its shape out of a text, JSON or not. JSON stays JSON, unless
 * it is longer than {@link MAX_TEXT_CHARS}: then it is cut, and says so at its end.
 */
export function redact(text: string): string {
  if (text.length > MAX_TEXT_CHARS) {
    const missing = text.length - MAX_TEXT_CHARS;
    return `${redact(text.slice(0, MAX_TEXT_CHARS))} [cut: ${missing} more characters]`;
  }
  const outer = replaced(text, FIELD, `"$1":"${REDACTED}"`);
  const named = outer.includes('\\') ? withoutQuotedFields(outer) : outer;
  return SHAPES.reduce((rest, shape) => replaced(rest, shape, `$1${REDACTED}`), named);
}

/** Each of their patterns has a backslash in it. */
function withoutQuotedFields(text: string): string {
  const rest = replaced(text, INNER_FIELD, String.raw`\"$1\":\"${REDACTED}\"`);
  return replaced(rest, DEEPER_FIELD, `"$1$2":$2"${REDACTED}`);
}

/** Looks first: most lines have nothing of it, and the engine prepares a replacement for longer than it looks. */
function replaced(text: string, pattern: RegExp, replacement: string): string {
  return text.search(pattern) < 0 ? text : text.replace(pattern, replacement);
}

/**
 * Of a value, what can be matched: a text, even cut off, a number, a list or object of such, a list of
 * lists or of bytes.
 */
function fieldPattern(quote: string, characters: string, end: string): RegExp {
  const text = quote + characters + quote;
  const cutOff = `(?:${quote}${characters})?${end}`;
  const flat = String.raw`(?:${text}|[^[\]"\\]|\\[nrt])*`;
  const bytes = String.raw`\{${quote}type${quote}:${quote}Buffer${quote},${quote}data${quote}:\[[\d,]*\]\}`;
  const values = [
    text,
    quote + characters,
    String.raw`-?\d[\d.eE+-]*`,
    String.raw`\[${flat}(?:\]|${cutOff})`,
    String.raw`\[(?:\[${flat}\]|${bytes}|[\s,]|\\[nrt])*\]`,
    String.raw`\{(?:${text}|[^{}"\\]|\\[nrt])*(?:\}|${cutOff})`,
  ];
  const name = `${quote}(${NAME})${quote}`;
  return new RegExp(`${name}${BLANKS}:${BLANKS}(?:${values.join('|')})`, 'gi');
}
