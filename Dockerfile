# See docs/operations/deployment.md; `docker compose up` starts everything.

FROM node:26-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without --omit=optional, npm would install TypeScript, which is an optional peer of nostr-tools.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:26-slim AS web
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY scripts/build-web.ts scripts/
COPY src/http/web src/http/web
COPY src/usernames/limits.ts src/usernames/
RUN ["node", "scripts/build-web.ts"]
# What `nutpost --version` prints in the clone. Without it, the image's version ends in `+unreleased`.
ARG VERSION=
RUN test -z "$VERSION" || echo "$VERSION" > dist/version

FROM node:26-slim
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json .
COPY bin bin
COPY demo demo
COPY migrations migrations
COPY src src
COPY --from=web /app/dist dist
# SQLite and generated secrets. With DATABASE_URL the service writes no files.
RUN mkdir -m 700 /data && chown node:node /data && mkdir -p node_modules/.cache && chown node:node node_modules/.cache
VOLUME /data
USER node
# Fills the compile cache (bin/nutpost.js). The network thread starts after the service has changed an option of V8, so
# its cache is another one.
RUN ["node", "bin/nutpost.js", "--help"]
RUN NODE_COMPILE_CACHE=node_modules/.cache/nutpost node --heap-growing-percent=50 src/net/network-thread-worker.ts
EXPOSE 3000
# Migrations of large tables may take minutes.
HEALTHCHECK --start-period=5m --interval=5s --timeout=5s --retries=6 \
  CMD ["node", "bin/healthcheck.js"]
# The option keeps memory below 220 MB under load (docs/performance.md, "Memory").
CMD ["node", "--max-semi-space-size=16", "bin/nutpost.js", "serve"]
