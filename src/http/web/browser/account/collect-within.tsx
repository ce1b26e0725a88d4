import { useEffect, useState } from 'preact/hooks';
import { formatRoughTimeLeft } from '../../expiry.ts';
import { language, t } from '../translator.ts';

/** Renders the component again and again, because time passes. */
export function useNowMs(): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNowMs(Date.now()), 5_000);
    return () => clearInterval(timer);
  }, []);
  return nowMs;
}

/** Says how long payments can be collected. Shows nothing without a deadline, or after it. */
export function CollectWithin({ collectBy = 0 }: { collectBy?: number | undefined }) {
  const secondsLeft = collectBy - useNowMs() / 1_000;
  return secondsLeft <= 0 ? null : (
    <p>{t('account.collectWithin', { time: formatRoughTimeLeft(secondsLeft, language) })}</p>
  );
}

/** Whether the mint may now refuse a payment. */
export function isPastDeadline({ collectBy = Infinity }: { collectBy?: number }): boolean {
  return collectBy * 1_000 <= Date.now();
}
