import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';

/** What a seed chooses, besides the faults. */
export interface Scenario {
  instances: number;
  mints: number;
  relays: number;
  recipients: number;
  /** How many each recipient has. */
  wallets: number;
  /** 0 or 1. */
  operators: number;
  payments: number;
  /** In bursts, up to 100 payers come within a second. */
  arrivals: 'steady' | 'bursts';
  /** Recipients with a webhook. */
  shops: number;
  /** Names that buyers want. 0: the service sells none. */
  sales: number;
  /** How long payers come, and faults happen. */
  activeMs: number;
  /** How long invoices are valid. Null: each mint chooses. */
  expirySeconds: number | null;
  /** After this time, mints delete expired quotes. Null: never. */
  quoteRetentionMs: number | null;
  /** How long a mint and a relay are gone after the faults, in hours. 0: not at all. */
  outageHours: number;
  /** Whether there are further payments after everything has recovered. They must be prompt. */
  hasCalmPhase: boolean;
  /** Whether the processes rest at the end, and are then compared with new ones. Takes as long as a few payments. */
  checksLeaks: boolean;
}

/**
 * Every second seed has shops. In the others, the service sends no notifications, so that a change there does not change
 * what happens in all seeds.
 */
export function chooseScenario(random: SeededRandom, seed: string): Scenario {
  const shopRandom = random.fork('shops');
  const hasShops = Number(seed) % 2 === 0;
  // Rare, because even an idle process takes a second or two for an hour.
  const outageRandom = random.fork('outage');
  const outageHours = outageRandom.chance(0.03) ? outageRandom.pick([2, 2, 3, 4, 6, 12]) : 0;
  // Longer than invoices are valid. Rare for the same reason.
  const isLong = random.chance(0.01);
  const isSlow = isLong || outageHours > 0;
  const activeMs = isLong ? 4_000_000 : random.pick([10_000, 20_000, 60_000, 60_000, 120_000]);
  return {
    instances: isSlow ? 1 : random.integer(1, 4),
    mints: random.integer(1, 6),
    relays: random.chance(0.5) ? random.integer(1, 6) : 0,
    recipients: isSlow ? 2 : random.pick([1, 2, 4, 8, 16]),
    wallets: random.pick([1, 1, 2, 3]),
    shops: hasShops ? shopRandom.integer(1, 4) : 0,
    operators: Number(random.chance(0.4)),
    payments: random.pick([10, 30, 60, 100]),
    arrivals: random.pick(['steady', 'bursts']),
    sales: random.chance(0.33) ? random.integer(3, 9) : 0,
    activeMs,
    // The reminders of a deadline need more time.
    expirySeconds: hasShops
      ? shopRandom.pick([null, 30, 400, 900])
      : random.pick([null, null, 30, 120]),
    quoteRetentionMs: outageHours > 0 ? null : random.pick([null, null, 120_000]),
    outageHours,
    hasCalmPhase: random.chance(0.3),
    checksLeaks: random.fork('leaks').chance(0.25),
  };
}

/** Returns when each payer comes. */
export function chooseArrivalsMs(random: SeededRandom, { payments, arrivals, activeMs }: Scenario) {
  const burstCount = random.integer(1, 5);
  const bursts = Array.from({ length: burstCount }, () => random.between(0, activeMs));
  return Array.from({ length: payments }, () =>
    arrivals === 'steady'
      ? random.between(0, activeMs)
      : random.pick(bursts) + random.between(0, 1_000),
  );
}
