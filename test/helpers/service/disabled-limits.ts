/** Environment variables that disable all limits for clients. Tests of other features set them. */
export const DISABLED_LIMITS_ENV: Readonly<Record<string, string>> = {
  LIMIT_REQUESTS: '0',
  LIMIT_INVOICES: '0',
  LIMIT_CHANGES: '0',
  LIMIT_PURCHASES: '0',
  LIMIT_OPEN_INVOICES_PER_RECIPIENT: '0',
  LIMIT_OPEN_INVOICES_PER_ADDRESS: '0',
  LIMIT_OPEN_INVOICES_PER_PAIR: '0',
  LIMIT_SOCKETS: '0',
  LIMIT_SOCKETS_PER_ADDRESS: '0',
  LIMIT_SOCKETS_PER_KEY: '0',
  LIMIT_SOCKET_MESSAGES: '0',
  LIMIT_ZAP_RECEIPTS: '0',
};

export const DEFAULT_LIMITS_ENV: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(DISABLED_LIMITS_ENV).map((name) => [name, '']),
);
