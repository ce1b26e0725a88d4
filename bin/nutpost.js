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
    return import('../src/cli.ts');
  });
}
