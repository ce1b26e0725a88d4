import { isAllowedPort } from './public-address.ts';

/** `URL` removes or replaces these characters, so the URL would differ from what people read. */
const DECEPTIVE_CHARACTER = /[\p{Cc}\s\\]/u;

const EMPTY_LABEL = /^\.|\.\.|\.$|^$/;

interface ServerUrlRules {
  maxLength: number;
  scheme: 'http' | 'ws';
  /** For development: accepts the plain protocol and any port. */
  allowInsecure: boolean;
}

/** Returns the one spelling that stands for all usual ones of a URL; null if the URL is not acceptable. */
export function normaliseServerUrl(text: string, rules: ServerUrlRules): string | null {
  const trimmed = text.trim();
  if (text.length > rules.maxLength || DECEPTIVE_CHARACTER.test(trimmed)) {
    return null;
  }
  const url = URL.parse(trimmed);
  if (url === null) {
    return null;
  }
  const host = url.hostname.replace(/\.$/, '');
  const isSecure = url.protocol === `${rules.scheme}s:`;
  const isInsecure = url.protocol === `${rules.scheme}:`;
  const isAllowed = rules.allowInsecure ? isSecure || isInsecure : isSecure && isAllowedPort(url);
  const hasCredentials = url.username !== '' || url.password !== '';
  if (!isAllowed || hasCredentials || EMPTY_LABEL.test(host)) {
    return null;
  }
  const port = url.port === '' ? '' : `:${url.port}`;
  const path = url.pathname.replace(/\/{2,}/g, '/').replace(/\/$/, '');
  const normalised = `${url.protocol}//${host}${port}${path}${url.search}`;
  // Normalised text can be longer than the input, because non-ASCII characters are escaped.
  return normalised.length <= rules.maxLength ? normalised : null;
}

/** A query or a fragment, even if it is empty, or an `@` before the path, which marks credentials. */
const FORBIDDEN_PARTS = /[?#]|^[^/]*(?:\/+[^/]*)?@/;

/** Some servers treat an escaped slash or backslash as a slash, others do not. */
const ESCAPED_SLASH = /%(?:2F|5C)/i;

/** Returns null if the text is not the URL of a mint. Wallets compare the normalised text. */
export function normaliseMintUrl(text: string, options: { allowHttp: boolean }): string | null {
  const normalised = normaliseServerUrl(text, {
    maxLength: 512,
    scheme: 'http',
    allowInsecure: options.allowHttp,
  });
  const isForbidden = FORBIDDEN_PARTS.test(text.trim()) || ESCAPED_SLASH.test(normalised ?? '');
  return isForbidden ? null : normalised;
}
