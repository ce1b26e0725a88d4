import type { FastifyPluginAsync } from 'fastify';
import { Refusal } from '../../domain/errors.ts';

/** `POST /api/v2/user/username` (spec.md section 4.6): this server sells no names. */
export const usernameRoutes: FastifyPluginAsync = async (app) => {
  app.post('/api/v2/user/username', async () => {
    throw new Refusal('invalid', 'Usernames cannot be bought here.');
  });
};
