import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyPluginAsync } from 'fastify';

/** The page has no inline script or style, and loads nothing from other origins. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // The style sheet contains icons.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HTML = 'text/html; charset=utf-8';
const CSS = 'text/css; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';

/** The library's plugin is not used: it would open a file for each request. */
const ASSETS = new URL('static/', import.meta.resolve('@fastify/swagger-ui'));

const DESCRIPTION = '/api/v2/openapi.json';

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>nutpost: the API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/index.css">
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/show.js"></script>
</body>
</html>
`;

/** People may try GET requests only. */
const SHOW = `SwaggerUIBundle({
  url: '${DESCRIPTION}',
  dom_id: '#swagger-ui',
  deepLinking: true,
  layout: 'BaseLayout',
  presets: [SwaggerUIBundle.presets.apis],
  supportedSubmitMethods: ['get'],
  validatorUrl: null,
});
`;

const readAsset = (name: string) => readFile(new URL(name, ASSETS));

const PAGE_FILES: readonly [string, string, () => Promise<string | Buffer>][] = [
  ['/docs', HTML, async () => PAGE],
  ['/docs/show.js', SCRIPT, async () => SHOW],
  ['/docs/index.css', CSS, () => readAsset('index.css')],
  ['/docs/swagger-ui.css', CSS, () => readAsset('swagger-ui.css')],
  ['/docs/swagger-ui-bundle.js', SCRIPT, () => readAsset('swagger-ui-bundle.js')],
  ['/docs/favicon-32x32.png', 'image/png', () => readAsset('favicon-32x32.png')],
];

const compress = promisify(gzip);

/** These responses are long, and hold their connection until the client has read them. */
const config = { countedAs: 'documents' } as const;

/**
 * The API's description for programs, and the page that shows it to people. Each response is one buffer, made at the
 * first request and shared by all clients, however slowly they read.
 */
export const documentationRoutes: FastifyPluginAsync = async (app) => {
  let description: Buffer | null = null;
  app.get(DESCRIPTION, { config }, async (_request, reply) => {
    description ??= Buffer.from(JSON.stringify(app.swagger()));
    reply.header('cache-control', 'public, max-age=300');
    return reply.type('application/json; charset=utf-8').send(description);
  });

  for (const [path, type, content] of PAGE_FILES) {
    // Always compressed, which every browser accepts: the script takes 1.7 MB otherwise.
    let compressed: Buffer | null = null;
    app.get(path, { config }, async (_request, reply) => {
      compressed ??= await compress(await content());
      reply.headers({
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'public, max-age=86400',
        'content-encoding': 'gzip',
      });
      return reply.type(type).send(compressed);
    });
  }
};
