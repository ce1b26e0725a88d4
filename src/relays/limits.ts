/** Usual URLs of relays are much shorter. */
export const MAX_RELAY_URL_LENGTH = 255;

export const RELAY_CONNECTION_LIMITS = {
  /** More connections than the dispatcher uses concurrently. Each uses a file descriptor. */
  max: 256,
  /** Some relays have a URL per user, and payers can invent URLs of any host. */
  maxPerHost: 8,
  /** Healthy relays respond to an event within a second. */
  responseTimeoutMs: 5_000,
  /** For the challenge of a relay that first rejects an event and then asks for AUTH. */
  challengeTimeoutMs: 1_000,
  /** NAT gateways may drop an idle connection silently after a minute. */
  idleTimeoutMs: 30_000,
  /** Relays commonly allow 20 concurrent queries per connection. */
  maxPendingQueries: 10,
  /** The service signs the challenge and sends it back. Usual challenges have a few dozen characters. */
  maxChallengeLength: 256,
  /** For a found event: its tags and all their values. Relay lists have some hundred. Verifying more costs too much. */
  maxTagElements: 2_500,
};

/** For relay lists and profiles, of which only the newest counts. */
export const NEWEST_EVENT_LIMITS = {
  /** NIP-05 responses contain the relays and wait for the lookup. */
  queryTimeoutMs: 2_000,
  /** After the first event was found, how long to wait for a newer one from another relay. */
  graceMs: 300,
};

/** For the relay lists of recipients (NIP-65, NIP-17). */
export const RELAY_LIST_LIMITS = {
  /** Users change their relays a few times a year. */
  foundTtlMs: 60 * 60_000,
  /** If no list was found or a relay did not respond. The user may soon publish a list. */
  incompleteTtlMs: 60_000,
  /** A full cache uses about ten megabytes if all lists are long. */
  maxCached: 5_000,
  /** NIP-65 recommends two to four, NIP-17 one to three. */
  maxRelays: 10,
  /** Each URL takes up to 15 µs to parse. */
  maxParsedTags: 100,
};
