const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** When a notification is due. */
export const NOTIFICATION_DELAYS = {
  /** After the payment is listed. A burst becomes one message, and it is known which sockets received the update. */
  receivedMs: 2 * SECOND_MS,
  /** A wallet that is open collects within this time. */
  collectingMs: 10 * SECOND_MS,
  /** Before the deadline. */
  lastCallMs: 10 * MINUTE_MS,
};

export const NOTIFICATION_LIMITS = {
  /** Of a recipient, by kind. */
  maxChannels: { webhook: 1, nostr: 1, web_push: 10 },
  /** How often the database is searched for due notifications. */
  scanIntervalMs: SECOND_MS,
  /** Between two messages of a channel. */
  pauseMs: MINUTE_MS,
  /** Payments in a message, which take about 40 KB. If more are due, the next message follows without a pause. */
  maxPerMessage: 100,
  /** In JSON, of all payments in a message, unless one has more: many servers accept only 100 KB. */
  maxCommentBytes: 32 * 1024,
  /** How long a message is retried. */
  giveUpAfterMs: 3 * DAY_MS,
  /** How long a channel may fail. */
  disableAfterMs: 7 * DAY_MS,
  /** A channel to which nothing was sent for so long may have worked meanwhile: its next failure begins a new outage. */
  outageGapMs: 2 * DAY_MS,
  /** Longer than a delivery takes. A message whose process died is due again then. */
  claimTimeoutMs: 30 * SECOND_MS,
  /** Deliveries at once, in total and to the hosts of one site. Sites that respond slowly occupy a small part. */
  maxInFlight: 256,
  maxInFlightPerSite: 8,
  /** To a push service, which all devices with a browser share. A scan, which runs every second, starts at most as many. */
  maxInFlightPerPushService: 100,
  /** Claimed at once. Those to a busy site are released, each in a transaction, so there should be few. */
  maxClaimed: 16,
  /** Requests per minute to a site: a person with many keys must not direct a flood at a server. */
  perSiteAndMinute: 120,
  /** Times as many to a push service. Otherwise, one person could delay the others. */
  pushServiceFactor: 50,
  maxCountedSites: 10_000,
  /** Of a response, which is ignored. Some frameworks answer with an HTML page. */
  maxResponseBytes: 64 * 1024,
  maxUrlLength: 1_024,
  /** Characters. A lock screen shows fewer, and push services accept messages of 4 KB (RFC 8030 section 7.2). */
  maxPushedComment: 300,
};

/** The pause after a failure. Servers may ask for a longer one (`Retry-After`). */
export const RETRY_LIMITS = { minMs: 2 * SECOND_MS, maxMs: HOUR_MS, maxRetryAfterMs: DAY_MS };

/** For Nostr messages. All parts of a delivery together take less than a claim. */
export const NOSTR_LIMITS = {
  /** Deliveries at once. */
  maxInFlight: 64,
  /** Fewer than the queries of a relay connection. */
  maxLookups: 8,
  /** At all relays, and at those of a site. */
  maxPublications: 256,
  maxPublicationsPerSite: 8,
  /** For a place among the lookups, or the publications. */
  maxWaitMs: 5 * SECOND_MS,
  /** For the connection, the event and an authentication. */
  publishTimeoutMs: 15 * SECOND_MS,
  /** Relays commonly accept events of 64 KiB. Encrypting twice makes four bytes of two. */
  maxCommentLength: 1_000,
};

/** Of Chrome, Firefox, Safari and Edge. */
export const PUSH_SERVICE_SITES = ['googleapis.com', 'mozilla.com', 'apple.com', 'windows.com'];
