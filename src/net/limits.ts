/** For HTTP requests. Tests use lower limits. */
export const FETCH_LIMITS = {
  connectTimeoutMs: 5_000,
  /** A mint queries its Lightning node before it responds, which can take seconds. */
  headersTimeoutMs: 12_000,
  /** Includes the wait for a slot and for a connection. Payers do not wait longer. */
  totalTimeoutMs: 15_000,
  /** A batch check of 1000 quotes with long invoices is about 2 MB. */
  maxBodyBytes: 4 * 1024 * 1024,
  /** Of all pending responses of a client together. Parsing takes up to twice as much of the network thread's heap. */
  maxBufferedBytes: 32 * 1024 * 1024,
  maxInFlight: 1024,
  maxInFlightPerSite: 32,
};

export type FetchLimits = typeof FETCH_LIMITS;

/** Node's default, explicit because the options of the process can change it. */
export const MAX_HEADER_BYTES = 16 * 1024;

/** What a host may send besides the body: headers, the framing of HTTP and TLS, and records without data. */
export const MAX_FRAMING_BYTES = 64 * 1024;

/** For a TLS handshake. Certificate chains on the web take up to 10 kB. Forged ones of 100 kB take 140 ms to verify. */
export const MAX_HANDSHAKE_BYTES = 32 * 1024;

/** What TLS may take in addition to data, such as session tickets. 900 tickets fit into a record and take 10 ms. */
export const MAX_TLS_OVERHEAD_BYTES = 128 * 1024;

/** How many bytes a message counts in addition to its length, because both threads spend up to 20 µs on it. */
export const BYTES_PER_MESSAGE = 2 * 1024;

/** What all WebSockets of a site may send: first the states of 4,000 quotes, then of about ten quotes a second. */
export const SITE_BURST_BYTES = 16 * 1024 * 1024;
export const SITE_BYTES_PER_SECOND = 64 * 1024;

/** How often the network thread records a heartbeat, and the main thread checks for it. */
export const HEARTBEAT_INTERVAL_MS = 250;

/** How long a site is suspended that has blocked the network thread. The backoff starts again after the TTL. */
export const SUSPENSION_BACKOFF = { initialMs: 10_000, maxMs: 60 * 60_000 };
export const SUSPENSION_TTL_MS = 24 * 60 * 60_000;

/** What the network thread sends at once, and the main thread handles in about 1 ms. The last reply may exceed it. */
export const MAX_REPLY_BATCH_BYTES = 64 * 1024;

/** Messages that wait for the main thread. If bursts of many sites reach this, the next messages close their WebSockets. */
export const MAX_QUEUED_MESSAGE_BYTES = 16 * 1024 * 1024;

/** Node cannot pass much deeper JSON to another thread. The info of a mint has six levels. */
export const MAX_JSON_DEPTH = 64;
