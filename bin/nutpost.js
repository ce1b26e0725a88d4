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
  void import('../src/cli.ts');
}
