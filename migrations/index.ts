import type { Migration } from 'kysely/migration';
import { up as initial } from './0001_initial.ts';

/** Every migration by name, applied in this order; a name that was released never changes. */
export const migrations: Record<string, Migration> = {
  '0001_initial': { up: initial },
};
