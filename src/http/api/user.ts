import { z } from 'zod';
import { toOptionalUnixSeconds, toUnixSeconds } from '../../clock.ts';
import type { Db } from '../../database/transaction.ts';
import type { MintInfo } from '../../mints/mint-info.ts';
import { findMintHealth } from '../../mints/mint-store.ts';
import { listLocalParts } from '../../recipients/lightning-address.ts';
import { redeemInvitation } from '../../recipients/member-store.ts';
import {
  MINT_PROBLEMS,
  previewMint,
  setMint,
  setQuoteLocking,
} from '../../recipients/recipient-settings.ts';
import type { Routes } from '../context.ts';
import {
  apiErrors,
  jsonBody,
  nonNegativeInteger,
  renderUser,
  success,
  successEnvelope,
  userResponse,
} from '../schemas.ts';

const getTokenSchema = {
  operationId: 'getToken',
  summary: 'Get a JWT',
  description: 'The token is valid for 30 minutes and only with the `User-Agent` of this request.',
  response: {
    200: successEnvelope(z.object({ token: z.string() })).meta({ description: 'The JWT.' }),
    ...apiErrors(400, 401, 500, 503),
  },
};

/** `GET /api/v2/auth/nip98`: exchanges a NIP-98 signature for a JWT. */
export const tokenRoutes: Routes = async (app, { jwt, clock }) => {
  app.get('/api/v2/auth/nip98', { schema: getTokenSchema }, async (request) => {
    const userAgent = request.headers['user-agent'];
    const token = await jwt.issue(request.pubkey, userAgent, toUnixSeconds(clock()));
    return success({ token });
  });
};

const getUserSchema = {
  operationId: 'getUser',
  summary: 'Get the user’s settings',
  description: 'Returns the operator’s defaults if the user has saved no settings.',
  response: { 200: userResponse, ...apiErrors(401, 500, 503) },
};

const listAddressesSchema = {
  operationId: 'listAddresses',
  summary: 'List the user’s Lightning addresses',
  response: {
    200: successEnvelope(z.object({ addresses: z.array(z.string()) })).meta({
      description:
        'For each host of the service, the main one first: the address with the username, if any, and the ' +
        'address with the npub. Payments to all of them appear in the same list. Empty if the server is for ' +
        'members and the user is not one.',
    }),
    ...apiErrors(401, 500, 503),
  },
};

const mintSchema = z
  .object({
    url: z.url(),
    name: z.string().optional().describe('For display: at most 100 printable characters.'),
    description: z.string().optional().describe('For display: at most 300 printable characters.'),
    supportsLocking: z.boolean().optional().describe('Whether the mint can lock quotes (NUT-20).'),
    minAmount: nonNegativeInteger.optional().describe('Sats. Absent if the mint names no limit.'),
    maxAmount: nonNegativeInteger.optional().describe('Sats. Absent if the mint names no limit.'),
    answeredAt: nonNegativeInteger
      .optional()
      .describe('When the mint last answered this service (Unix seconds, up to a minute late).'),
    failingSince: nonNegativeInteger
      .optional()
      .describe('Since when the mint does not answer this service (Unix seconds).'),
  })
  .meta({
    id: 'Mint',
    description: 'A mint, what it says about itself (NUT-06), and how it answered.',
  });

const getMintSchema = {
  operationId: 'getMint',
  summary: 'Get information on the mint of future payments',
  description:
    'From a cache. `url` is the only field if the mint does not respond and never did. The mint chooses its ' +
    'name and description, so display them as text only.',
  response: {
    200: successEnvelope(z.object({ mint: mintSchema })).meta({
      description: 'The user’s mint, or the operator’s default.',
    }),
    ...apiErrors(401, 500, 503),
  },
};

const previewMintSchema = {
  operationId: 'previewMint',
  summary: 'Look at a mint before choosing it',
  description: 'Returns what the mint says about itself, or the reason why it cannot be chosen.',
  querystring: z.object({
    url: z.string({ error: 'must be given once' }).meta({ format: 'uri' }),
  }),
  response: {
    200: successEnvelope(
      z.object({
        mint: mintSchema.optional().describe('The mint, with its normalised URL.'),
        reason: z
          .enum(MINT_PROBLEMS)
          .optional()
          .describe('Why the mint cannot be chosen. Later versions may add reasons.'),
      }),
    ).meta({ description: 'The mint, or the reason.' }),
    ...apiErrors(400, 401, 500, 503),
  },
};

const chooseMintSchema = {
  operationId: 'chooseMint',
  summary: 'Choose the mint of future payments',
  description:
    'Existing quotes stay with their mint. Fails if the mint is unavailable, cannot receive sats over ' +
    'Lightning, or cannot lock quotes although the user enabled locking.',
  body: jsonBody({ mint_url: z.string({ error: 'must be a string' }).meta({ format: 'uri' }) }),
  response: { 200: userResponse, ...apiErrors(400, 401, 413, 500, 503) },
};

const setLockingSchema = {
  operationId: 'setLocking',
  summary: 'Enable or disable locking of future quotes',
  description:
    'Only the owner of the key can mint a locked quote (NUT-20). Fails if the mint cannot lock quotes.',
  body: jsonBody({ lockQuotes: z.boolean({ error: 'must be true or false' }) }),
  response: { 200: userResponse, ...apiErrors(400, 401, 413, 500, 503) },
};

export const userRoutes: Routes = async (app, context) => {
  const { db, recipients, mintInfoCache, publicOrigins } = context;
  app.get('/api/v2/user/info', { schema: getUserSchema }, async (request) =>
    renderUser(await recipients.getByPubkey(request.pubkey)),
  );

  app.get('/api/v2/user/addresses', { schema: listAddressesSchema }, async (request) => {
    // The username comes before the npub.
    const recipient = await recipients.getByPubkey(request.pubkey);
    const localParts = recipient.isMember === false ? [] : listLocalParts(recipient).toReversed();
    const hosts = new Set(publicOrigins.origins.map((origin) => publicOrigins.getHost(origin)));
    const addresses = [...hosts].flatMap((host) => localParts.map((part) => `${part}@${host}`));
    return success({ addresses });
  });

  app.get('/api/v2/user/mint', { schema: getMintSchema }, async (request) => {
    const { mintUrl } = await recipients.getByPubkey(request.pubkey);
    return success({ mint: await describeMint(db, mintUrl, await mintInfoCache.get(mintUrl)) });
  });

  // A preview contacts a mint, like a change of the setting.
  const config = { rateLimitCategory: 'settingChanges' } as const;
  const previewOptions = { schema: previewMintSchema, config };
  app.get('/api/v2/user/mint/preview', previewOptions, async ({ query }) => {
    const preview = await previewMint(context, query.url);
    return success(
      'problem' in preview
        ? { reason: preview.problem }
        : { mint: await describeMint(db, preview.mintUrl, preview.info) },
    );
  });

  app.patch('/api/v2/user/mint', { schema: chooseMintSchema, config }, async (request) =>
    renderUser(await setMint(context, request.pubkey, request.body.mint_url)),
  );
  app.patch('/api/v2/user/lock', { schema: setLockingSchema, config }, async (request) =>
    renderUser(await setQuoteLocking(context, request.pubkey, request.body.lockQuotes)),
  );
};

async function describeMint(
  db: Db,
  url: string,
  info: MintInfo | null,
): Promise<z.infer<typeof mintSchema>> {
  const health = await findMintHealth(db, url);
  return {
    url,
    name: info?.name ?? undefined,
    description: info?.description ?? undefined,
    supportsLocking: info?.supportsLocking,
    minAmount: info?.minAmountSat ?? undefined,
    maxAmount: info?.maxAmountSat ?? undefined,
    answeredAt: toOptionalUnixSeconds(health?.answeredAtMs),
    failingSince: toOptionalUnixSeconds(health?.failingSinceMs),
  };
}

const redeemSchema = {
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
  app.post(
    '/api/v2/user/membership',
    { schema: redeemSchema, config },
    async ({ pubkey, body }) => {
      await redeemInvitation(db, pubkey, body.code, clock());
      return renderUser(await recipients.getByPubkey(pubkey));
    },
  );
};
