import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyPluginAsync } from 'fastify';

/** The page has no inline script or style, and needs nothing from elsewhere. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Its icons stand in its style sheet, as data.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HTML = 'text/html; charset=utf-8';
const CSS = 'text/css; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';

/** Of the library, only its files: its plugin would open one for each request. */
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

/** To be read, and tried where that changes nothing. */
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

/** The page and all that it loads: path, type, and where the content comes from. */
const PAGE_FILES: readonly [string, string, () => Promise<string | Buffer>][] = [
  ['/docs', HTML, async () => PAGE],
  ['/docs/show.js', SCRIPT, async () => SHOW],
  ['/docs/index.css', CSS, () => readAsset('index.css')],
  ['/docs/swagger-ui.css', CSS, () => readAsset('swagger-ui.css')],
  ['/docs/swagger-ui-bundle.js', SCRIPT, () => readAsset('swagger-ui-bundle.js')],
  ['/docs/favicon-32x32.png', 'image/png', () => readAsset('favicon-32x32.png')],
];

const compress = promisify(gzip);

/** Each of these answers is long, and holds its connection for as long as the client does not read it. */
const config = { countedAs: 'documents' } as const;

/**
 * The API's description for programs, and the page that shows it to people. What is answered is one
 * buffer for all who ask, however many of them do not read: an answer costs no file, and no memory for
 * what it says.
 */
export const documentationRoutes: FastifyPluginAsync = async (app) => {
  let description: Buffer | null = null;
  app.get(DESCRIPTION, { config }, async (_request, reply) => {
    description ??= Buffer.from(JSON.stringify(app.swagger()));
    reply.header('cache-control', 'public, max-age=300');
    return reply.type('application/json; charset=utf-8').send(description);
  });

  for (const [path, type, content] of PAGE_FILES) {
    const packed = packedOnce(content);
    app.get(path, { config }, async (_request, reply) => {
      const body = await packed();
      reply.headers({
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'public, max-age=86400',
        'content-encoding': 'gzip',
      });
      return reply.type(type).send(body);
    });
  }
};

/**
 * Read and packed for the first who asks, and kept: most processes are never asked. It is sent packed to
 * everybody. Every browser takes it so, and 1.7 MB unpacked would be what the system has to hold of the
 * bundle for each client that does not read.
 */
function packedOnce(content: () => Promise<string | Buffer>): () => Promise<Buffer> {
  const pack = async () => compress(await content());
  let packed: Promise<Buffer> | null = null;
  return () => {
    packed ??= pack().catch((error: unknown) => {
      packed = null;
      throw error;
    });
    return packed;
  };
}

function readAsset(name: string): Promise<Buffer> {
  return readFile(new URL(name, ASSETS));
}
