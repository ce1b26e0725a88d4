import type { TestProject } from 'vitest/node';
import { openDatabase } from '../../src/database/database.ts';
import { createPostgresDatabaseFrom } from './postgres-database.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Name of an empty database with all tables on the server of `TEST_DATABASE_URL`; null without a server. */
    serverTemplate: string;
  }
}

/** Creates the template once for all files of a project: copying is ten times as fast as migrating. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const serverUrl = process.env['TEST_DATABASE_URL'];
  const server = serverUrl === undefined ? null : await createTemplate(serverUrl);
  project.provide('serverTemplate', server?.template ?? '');
  return async () => {
    await server?.remove();
  };
}

async function createTemplate(server: string) {
  const { url, drop } = await createPostgresDatabaseFrom(server, 'template0');
  const database = await openDatabase({ kind: 'postgres', url }, () => undefined);
  await database.close();
  return { template: new URL(url).pathname.slice(1), remove: drop };
}
