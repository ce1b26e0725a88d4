import type { FastifyReply } from 'fastify';

/** @param connectSources origins besides this one that scripts may connect to */
export function setPageHeaders(
  reply: FastifyReply,
  { connectSources = [] }: { connectSources?: readonly string[] } = {},
): void {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    ["connect-src 'self'", ...connectSources].join(' '),
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  reply.headers({
    'content-security-policy': policy,
    // The path of an invoice page contains a secret token.
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    // The browser keeps the page, but asks whether it has changed (ETag).
    'cache-control': 'no-cache',
  });
  reply.type('text/html; charset=utf-8');
}
