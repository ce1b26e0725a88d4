#!/usr/bin/env node
// What a container asks itself: exit code 0 where the service beside it is ready, else 1. It takes the
// service's own settings, and loads nothing of it, because it runs every few seconds.

/** A service that takes longer is not well. */
const TIMEOUT_MS = 4_000;

const port = process.env.PORT || '3000';
const url = `http://${reachable(process.env.HOST || '127.0.0.1')}:${port}/health/ready`;
try {
  const answer = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  console.log(await answer.text());
  process.exitCode = answer.ok ? 0 : 1;
} catch (error) {
  console.log(`${url} does not answer: ${error.cause?.message || error.message}`);
  process.exitCode = 1;
}

/** Where something that listens at this address, or at all of its kind, can be asked from here. */
function reachable(host) {
  const here = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  return here.includes(':') ? `[${here}]` : here;
}
