#!/usr/bin/env node
// Looks at the version before anything newer is parsed, so this file stays plain old JavaScript.

var MINIMUM_MAJOR = 26;

var version = process.versions.node;

if (parseInt(version, 10) < MINIMUM_MAJOR) {
  console.error(
    'nutpost needs Node.js ' +
      MINIMUM_MAJOR +
      ' or later and this is ' +
      version +
      ': install a newer one, or run "npm ci" and then "npm start", which bring their own.',
  );
  process.exitCode = 1;
} else {
  // Half of a start is reading the code. What Node made of it is kept beside the packages, where nobody
  // writes who could not change the code; where we may not either, it is read each time.
  void import('node:module').then(function (module) {
    module.enableCompileCache(import.meta.dirname + '/../node_modules/.cache/nutpost');
    if (process.argv[2] !== 'demo') {
      hideFetch();
    }
    return import('../src/cli.ts');
  });
}

/**
 * A look at one of these is enough for Node to load all of its own HTTP client: 14 MB of memory and a part of
 * each start. Some libraries look, and only the demo uses it: requests to others go through src/net/.
 */
function hideFetch() {
  delete globalThis.WebSocket;
  // One is looked for with instanceof, which needs something to compare with.
  globalThis.Response = function Response() {};
}
