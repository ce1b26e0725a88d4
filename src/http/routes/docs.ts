import { readFile } from 'node:fs/promises';
import type { FastifyPluginAsync } from 'fastify';
import { createStaticFile, type StaticFile, sendStaticFile } from '../static-files.ts';

/** `data:` for icons in the style sheet. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';" +
  " base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The plugin @fastify/swagger-ui is not used, because it would open a file for each request. */
const SWAGGER_UI_ASSETS_URL = new URL('static/', import.meta.resolve('@fastify/swagger-ui'));

const OPENAPI_PATH = '/api/v2/openapi.json';

const SWAGGER_UI_HTML = `<!doctype html>
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

const SWAGGER_UI_INIT_SCRIPT = `SwaggerUIBundle({
  url: '${OPENAPI_PATH}',
  dom_id: '#swagger-ui',
  deepLinking: true,
  layout: 'BaseLayout',
  presets: [SwaggerUIBundle.presets.apis],
  supportedSubmitMethods: ['get'],
  validatorUrl: null,
});
`;

const readAsset = (name: string) => readFile(new URL(name, SWAGGER_UI_ASSETS_URL));

const FILES: readonly [path: string, extension: string, read: () => Promise<string | Buffer>][] = [
  ['/docs', 'html', async () => SWAGGER_UI_HTML],
  ['/docs/show.js', 'js', async () => SWAGGER_UI_INIT_SCRIPT],
  ['/docs/index.css', 'css', () => readAsset('index.css')],
  ['/docs/swagger-ui.css', 'css', () => readAsset('swagger-ui.css')],
  ['/docs/swagger-ui-bundle.js', 'js', () => readAsset('swagger-ui-bundle.js')],
  ['/docs/favicon-32x32.png', 'png', () => readAsset('favicon-32x32.png')],
];

const rateLimitConfig = { rateLimitCategory: 'documents' } as const;

/** Serves the OpenAPI document and the Swagger UI page. The first request for a file loads it into memory. */
export const docsRoutes: FastifyPluginAsync = async (app) => {
  let openApiJson: Buffer | null = null;
  app.get(OPENAPI_PATH, { config: rateLimitConfig }, async (_request, reply) => {
    openApiJson ??= Buffer.from(JSON.stringify(app.swagger()));
    reply.header('cache-control', 'public, max-age=300');
    return reply.type('application/json; charset=utf-8').send(openApiJson);
  });

  for (const [path, extension, read] of FILES) {
    let file: StaticFile | null = null;
    app.get(path, { config: rateLimitConfig }, async (request, reply) => {
      file ??= await createStaticFile(await read(), extension);
      reply.headers({
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'referrer-policy': 'no-referrer',
        'cache-control': 'public, max-age=86400',
      });
      return sendStaticFile(file, request, reply);
    });
  }
};
