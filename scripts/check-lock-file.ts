import { readFileSync } from 'node:fs';

// Fails if an entry of the lock file has no integrity hash, because npm would install that package unverified. npm
// omits the hashes of packages for other platforms if the registry does not report them.

interface LockedPackage {
  version: string;
  integrity?: string;
}

const lockFile: { packages: Record<string, LockedPackage> } = JSON.parse(
  readFileSync('package-lock.json', 'utf8'),
);
const unverified = Object.entries(lockFile.packages)
  .filter(([path, { integrity }]) => path !== '' && !integrity)
  .map(([path, { version }]) => `${path}@${version}`);
if (unverified.length > 0) {
  console.error(`package-lock.json: no integrity hash for:\n${unverified.join('\n')}`);
  process.exitCode = 1;
}
