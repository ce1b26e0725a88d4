import { isPublicPort } from './public-address.ts';

/** The parser drops or replaces these, so that the url would not be the one that people read. */
const DECEPTIVE = /[\p{Cc}\s\\]/u;

const EMPTY_LABEL = /^\.|\.\.|\.$|^$/;

const ESCAPE = /%([0-9a-f]{2})/gi;

/** What means the same escaped and not (RFC 3986 section 2.3). */
const UNRESERVED = /^[\w.~-]$/;

/** Which urls name a host of some kind. */
export interface HostUrlRules {
  /** In characters, as it is written and as it is known. */
  maxLength: number;
  /** The scheme with TLS, as `URL` writes it. */
  secure: 'https:' | 'wss:';
  /** The same without TLS. */
  plain: 'http:' | 'ws:';
  /** Whether the plain scheme, and any port, is accepted (development). */
  allowPlain: boolean;
}

/**
 * The one text by which a host that strangers name is known, whatever it is there for: two spellings must
 * not be two hosts.
 *
 * Scheme and host in lower case (IDN as punycode, IPv4 as four decimals), no dot after the host, no
 * default port, no dot segments, no trailing or double slash, nothing escaped in the path that need not
 * be (RFC 3986 section 6.2.2), no fragment. The rest of the path and the query as they are.
 *
 * @param text what a user, a stranger or the operator wrote
 * @returns null where the text is no such url, or names a user
 */
export function normaliseHostUrl(text: string, rules: HostUrlRules): string | null {
  const trimmed = text.trim();
  if (text.length > rules.maxLength || DECEPTIVE.test(trimmed) || !URL.canParse(trimmed)) {
    return null;
  }
  const url = new URL(trimmed);
  const host = url.hostname.replace(/\.$/, '');
  const isOpen = url.protocol === rules.secure && isPublicPort(url);
  const isOfKind = url.protocol === rules.secure || url.protocol === rules.plain;
  const hasUser = url.username !== '' || url.password !== '';
  if (EMPTY_LABEL.test(host) || hasUser || !(isOpen || (rules.allowPlain && isOfKind))) {
    return null;
  }
  const port = url.port === '' ? '' : `:${url.port}`;
  const normalised = `${url.protocol}//${host}${port}${plainestPath(url)}${url.search}`;
  // What is not ASCII has become longer.
  return normalised.length <= rules.maxLength ? normalised : null;
}

function plainestPath({ pathname }: URL): string {
  return pathname
    .replace(ESCAPE, plainest)
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
}

function plainest(escaped: string, hex: string): string {
  const character = String.fromCharCode(Number.parseInt(hex, 16));
  return UNRESERVED.test(character) ? character : escaped.toUpperCase();
}
