import type { Migration } from 'kysely/migration';
import { up as initial } from './0001_initial.ts';

/** All migrations in their order. The name of a released migration never changes. */
export const migrations: Record<string, Migration> = {
  '0001_initial': { up: initial },
};
