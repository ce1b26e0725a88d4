import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';

/** Runs a program in a network of its own, which contains nothing but this machine. */
export const UNSHARE = ['unshare', '--net', '--mount', '--map-root-user'] as const;

/** The only name server of the namespace. */
export const NAME_SERVER = '127.0.0.1';

/**
 * Gives public addresses to this machine, because the service refuses others in production, and replaces the name
 * servers. Must run in a namespace.
 */
export function prepareNamespace(folder: string): void {
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  execFileSync('ip', ['address', 'add', '11.0.0.0/16', 'dev', 'lo']);
  const file = path.join(folder, 'resolv.conf');
  writeFileSync(file, `nameserver ${NAME_SERVER}\n`);
  execFileSync('mount', ['--bind', file, '/etc/resolv.conf']);
}

/** Returns an address of an attacker. Each address is a site. */
export function getAttackAddress(group: number, host: number): string {
  return `11.0.${group}.${host}`;
}

export function getAttackPort(group: number): number {
  return 8_000 + group;
}
