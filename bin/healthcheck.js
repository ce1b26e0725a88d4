#!/usr/bin/env node
// The container's health check: exits with 0 if the service is ready, otherwise with 1. It imports no module
// of the service, because it runs every few seconds.

const TIMEOUT_MS = 4_000;

const port = process.env.PORT || '3000';
const url = `http://${toConnectableHost(process.env.HOST || '127.0.0.1')}:${port}/health/ready`;
try {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  console.log(await response.text());
  process.exitCode = response.ok ? 0 : 1;
} catch (error) {
  console.log(`${url} does not respond: ${error.cause?.message || error.message}`);
  process.exitCode = 1;
}

/** Replaces a wildcard address by the loopback address. */
function toConnectableHost(host) {
  const address = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  return address.includes(':') ? `[${address}]` : address;
}
