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
  void Promise.all([import('node:module'), import('node:fs')]).then(function ([module, fs]) {
    var root = import.meta.dirname + '/..';
    // Compiling takes half of the start time, so Node caches the compiled code. The cache is in node_modules because
    // anyone who can write there can change the code anyway. Without write access, the cache is not used.
    module.enableCompileCache(root + '/node_modules/.cache/nutpost');
    // The npm package contains JavaScript instead of the sources (scripts/build-package.ts).
    return fs.existsSync(root + '/src') ? import('../src/cli.ts') : import('../dist/src/cli.js');
  });
}
