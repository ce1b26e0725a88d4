import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import type { Clock } from '../clock.ts';
import type { Readiness } from '../database/readiness.ts';
import type { Db } from '../database/transaction.ts';
import type { Logger } from '../log.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { EventVerifier } from '../nostr/events.ts';
import type { NotificationContext } from '../notifications/notification-context.ts';
import type { InvoiceContext } from '../quotes/issue-invoice.ts';
import type { QuoteSubscribers } from '../quotes/update-sender.ts';
import type { RecipientDirectory } from '../recipients/recipient-directory.ts';
import type { RelayListCache } from '../relays/relay-list-cache.ts';
import type { UsernameContext } from '../usernames/register-username.ts';
import type { ProfileCache } from '../zaps/profile-cache.ts';
import type { ClientLimits } from './client-rate-limiter.ts';
import type { JwtIssuer } from './jwt.ts';
import type { PublicOrigins } from './public-origins.ts';
import type { FiatRates } from './web/fiat-rates.ts';

export interface HttpContext {
  db: Db;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
  readiness: Readiness;
  limits: ClientLimits;
  publicOrigins: PublicOrigins;
  jwt: JwtIssuer;
  verifyEvent: EventVerifier;
  recipients: RecipientDirectory;
  mintPolicy: MintPolicy;
  mintInfoCache: MintInfoCache;
  invoices: InvoiceContext;
  /** The `text/plain` entry of LNURL metadata, in which `{address}` is replaced by the Lightning address. */
  descriptionTemplate: string;
  /** In Unicode code points. 0 means that comments are ignored. */
  maxCommentLength: number;
  /** Returns the key that signs zap receipts for recipients at a mint (hex); null if zap requests are ignored. */
  getZapPubkey: (mintUrl: string) => string | null;
  /** Whether the operator has set a key that signs zap receipts. */
  hasZaps: boolean;
  subscribers: QuoteSubscribers;
  usernames: UsernameContext;
  /** Null if the service sends no notifications: `NOTIFICATIONS=false`, or no treasury secret. */
  notifications: NotificationContext | null;
  recipientRelays: RelayListCache;
  /** Null if pages show no profiles. */
  profiles: ProfileCache | null;
  /** Null if pages show only sats. */
  fiatRates: FiatRates | null;
  allowPrivateNetworks: boolean;
}

export type Routes = FastifyPluginAsyncZod<HttpContext>;
