import { z } from 'zod';
import { redeemInvitation } from '../../recipients/member-store.ts';
import type { Routes } from '../context.ts';
import { apiErrors, jsonBody, renderUser, userResponse } from '../schemas.ts';

const schema = {
  operationId: 'redeemInvitation',
  summary: 'Become a member with an invitation',
  description:
    'Only on a server for members, where other users cannot be paid. A code can be used once; the request can be ' +
    'repeated.',
  body: jsonBody({ code: z.string({ error: 'must be a string' }).max(100) }),
  response: { 200: userResponse, ...apiErrors(400, 401, 404, 413, 500, 503) },
};

/** Registered only if the service is for members. */
export const membershipRoutes: Routes = async (app, { db, recipients, clock }) => {
  const config = { rateLimitCategory: 'settingChanges' } as const;
  app.post('/api/v2/user/membership', { schema, config }, async ({ pubkey, body }) => {
    await redeemInvitation(db, pubkey, body.code, clock());
    return renderUser(await recipients.getByPubkey(pubkey));
  });
};
