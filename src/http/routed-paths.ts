import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { RequestError } from '../errors.ts';

declare module 'fastify' {
  interface FastifyInstance {
    routedPaths: { pattern: RegExp; methods: string[] }[];
  }
}

/** Records the paths that have routes, for {@link replaceNotFoundError}. Must be called before they are registered. */
export function recordRoutedPaths(app: FastifyInstance): void {
  app.decorate('routedPaths', []);
  app.addHook('onRoute', ({ url, method }) => {
    // `*` is the route for preflights. The page `/:address` exists only if its recipient does.
    if (url !== '*' && !url.startsWith('/:')) {
      const parts = url
        .split('/')
        .map((part) => (part.startsWith(':') ? '[^/]+' : RegExp.escape(part)));
      const pattern = new RegExp(`^${parts.join('/')}/?$`);
      app.routedPaths.push({ pattern, methods: [method].flat() });
    }
  });
}

/** If the path has routes, but none for the method, returns an error with 405 instead of 404, and sets `Allow`. */
export function replaceNotFoundError(
  error: unknown,
  { server, method, raw }: FastifyRequest,
  reply: FastifyReply,
): unknown {
  if (!(error instanceof RequestError && error.code === 'not_found')) {
    return error;
  }
  const path = normaliseRequestPath(raw.url ?? '/');
  const routes = server.routedPaths.filter(({ pattern }) => pattern.test(path));
  const methods = new Set(routes.flatMap((route) => route.methods));
  if (methods.size === 0 || methods.has(method)) {
    return error;
  }
  const allowed = [...methods, 'OPTIONS'].join(', ');
  reply.header('allow', allowed);
  return new RequestError('method_not_allowed', `Method not allowed. Allowed: ${allowed}.`);
}

/** Returns the path as the router reads it, without repeated slashes and redundant escapes. */
export function normaliseRequestPath(url: string): string {
  return url
    .replace(/[?#].*$/, '')
    .replace(REDUNDANT_ESCAPE, decodeURIComponent)
    .replace(/\/{2,}/g, '/');
}

/** Escapes of ASCII characters except control characters and the slash. The router treats them like the character. */
const REDUNDANT_ESCAPE = /%(?!2f)[2-7][0-9a-f]/gi;
