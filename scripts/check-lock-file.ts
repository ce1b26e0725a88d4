import { readFileSync } from 'node:fs';

// Fails if a package in package-lock.json has no integrity hash, because npm would install it without verification.
// npm writes no hash for a package of another platform if the registry does not report the hash.

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
