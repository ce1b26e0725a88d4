import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance } from 'fastify';
import { expect, it, onTestFinished } from 'vitest';
import {
  BUILT_IN_RESERVED_USERNAMES,
  isReservedUsername,
  parseUsername,
} from '../../src/recipients/lightning-address.ts';
import { createTestEnvironment } from '../helpers/service/test-environment.ts';

it('reserves only names that are valid usernames', () => {
  expect(BUILT_IN_RESERVED_USERNAMES.map(parseUsername)).toEqual(BUILT_IN_RESERVED_USERNAMES);
});

/** The payment page of a username is at `/<username>`, so no username may equal the first segment of another path. */
it('reserves the first path segment of every route that would be a valid username', async () => {
  const firstSegments = new Set<string>();
  const recordRoutes = (message: unknown) => {
    (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ url }) => {
      firstSegments.add(url.split('/')[1] ?? '');
    });
  };
  subscribe('fastify.initialization', recordRoutes);
  onTestFinished(() => {
    unsubscribe('fastify.initialization', recordRoutes);
  });
  const environment = await createTestEnvironment();
  await environment.close();
  const names = [...firstSegments].filter((segment) => parseUsername(segment) !== null);
  expect(names).toEqual(expect.arrayContaining(['api', 'docs', 'health', 'lnurl']));
  expect(names.filter((name) => !isReservedUsername(name, []))).toEqual([]);
});
