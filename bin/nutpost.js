#!/usr/bin/env node
// Checks the Node version before newer syntax is parsed, so this file uses only old JavaScript.

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
  // Compiling takes half of the start time, so Node caches the compiled code. The cache is in node_modules because
  // anyone who can write there can change the code anyway. Without write access, the cache is not used.
  void import('node:module').then(function (module) {
    module.enableCompileCache(import.meta.dirname + '/../node_modules/.cache/nutpost');
    return import('../src/cli.ts');
  });
}
