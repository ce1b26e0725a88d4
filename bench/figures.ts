import type { Figure } from './harness/figure.ts';

/**
 * Every figure by its name, in the order of the table. Each is loaded by itself, so that one that does not
 * fit another commit's service (`--against`) takes no other with it.
 */
export const FIGURES: Readonly<Record<string, () => Promise<Figure>>> = {
  start: async () => (await import('./start.ts')).start,
  'idle-memory': async () => (await import('./idle-memory.ts')).idleMemory,
  discovery: async () => (await import('./discovery.ts')).discovery,
  lookups: async () => (await import('./lookups.ts')).lookups,
  invoice: async () => (await import('./invoice.ts')).invoice,
  'quote-list': async () => (await import('./quote-list.ts')).quoteList,
  nip98: async () => (await import('./nip98.ts')).nip98,
  'deep-list': async () => (await import('./deep-list.ts')).deepList,
  'payment-to-update': async () => (await import('./payment-to-update.ts')).paymentToUpdate,
  observations: async () => (await import('./observations.ts')).observations,
  sockets: async () => (await import('./sockets.ts')).sockets,
  'several-processes': async () => (await import('./several-processes.ts')).severalProcesses,
  watcher: async () => (await import('./watcher.ts')).watcher,
  zaps: async () => (await import('./zaps.ts')).zaps,
};
