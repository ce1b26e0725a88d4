import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Payment } from '../../src/mint/mint-shares.ts';
import { PATIENCE_MS, PayersTurns, type Turn } from '../../src/mint/payers-turns.ts';

/** Sixteen requests run at a time to one mint, and 128 are under way. */
const MINT = 'https://mint.example';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('requests for one mint', () => {
  it.each([
    ['recipient', paying('alice')],
    ['network', (index: number) => ({ recipient: `made up ${index}`, network: 'flood' })],
  ])('have half of the connections where they are of one %s', (_who, paymentOf) => {
    const line = openLine();
    const flood = line.upTo(600, paymentOf);
    expect(flood.filter(isBegun)).toHaveLength(8);
    expect(flood.filter((turn) => turn !== null)).toHaveLength(512);
    expect(line.up('bob', 'elsewhere')?.isBegun).toBe(true);
  });

  it('leave half of the connections of a recipient to others than one network', () => {
    const line = openLine();
    const flood = line.upTo(600, () => ({ recipient: 'alice', network: 'flood' }));
    expect(flood.filter(isBegun)).toHaveLength(4);
    expect(flood.filter((turn) => turn !== null)).toHaveLength(256);
    for (const network of ['elsewhere', 'anywhere', 'here', 'there']) {
      expect(line.up('alice', network)?.isBegun).toBe(true);
    }
    const next = line.up('alice', 'nowhere');
    expect(next?.isBegun).toBe(false);
    // One network has its half again: its next in line begins, and not who waits behind it.
    flood.find(isBegun)?.end();
    expect(next?.isBegun).toBe(false);
    expect(flood.filter(isBegun)).toHaveLength(5);
  });

  it('share what there is of connections with those for other mints of its host', () => {
    const turns = new PayersTurns({ isBounded: true, allowPrivateNetworks: false });
    const begun = Array.from({ length: 32 }, (_, index) => {
      const mintUrl = `${MINT}:${8000 + index}/${index}`;
      return turns.lineUp(mintUrl, { recipient: `made up ${index}`, network: 'flood' });
    });
    expect(begun.filter(isBegun)).toHaveLength(8);
    expect(turns.lineUp(MINT, { recipient: 'bob', network: 'elsewhere' })?.isBegun).toBe(true);
  });

  it('pass over those who may not begin yet', () => {
    const line = openLine();
    const flood = line.upTo(100, () => ({ recipient: 'alice', network: 'flood' }));
    const others = ['one', 'two', 'three', 'four', 'five'].map((network) =>
      line.up('alice', network),
    );
    expect(others.map(isBegun)).toEqual([true, true, true, true, false]);
    others[0]?.end();
    expect(others.map(isBegun)).toEqual([true, true, true, true, true]);
    expect(flood.filter(isBegun)).toHaveLength(4);
  });

  it('begin in the order in which they came, each as soon as there is room', async () => {
    const line = openLine();
    const turns = line.upTo(16, paying('alice'));
    for (let ended = 0; ended < 8; ended += 1) {
      expect(turns.filter(isBegun)).toHaveLength(8 + ended);
      turns[ended]?.end();
      expect(await turns[8 + ended]?.begins).toBe(true);
    }
  });

  it('give up after some seconds, and leave no trace', async () => {
    const line = openLine();
    const turns = line.upTo(11, paying('alice'));
    vi.advanceTimersByTime(PATIENCE_MS - 1);
    turns[0]?.end();
    vi.advanceTimersByTime(1);
    const begun = await Promise.all(turns.map(async (turn) => turn?.begins));
    expect(begun).toEqual([...Array(9).fill(true), false, false]);
    for (const turn of turns.slice(1)) {
      turn?.end();
    }
    expect(vi.getTimerCount()).toBe(0);
    expect(line.upTo(600, paying('alice')).filter((turn) => turn !== null)).toHaveLength(512);
  });

  it('wait for nothing where the operator wants no bound', () => {
    const line = openLine(false);
    expect(line.upTo(100, paying('alice')).filter(isBegun)).toHaveLength(100);
  });
});

/** Payers of one recipient, each at an address of their own. */
function paying(recipient: string): (index: number) => Payment {
  return (index) => ({ recipient, network: `network ${index}` });
}

function isBegun(turn: Turn | null): boolean {
  return turn?.isBegun === true;
}

function openLine(isBounded = true) {
  const turns = new PayersTurns({ isBounded, allowPrivateNetworks: false });
  return {
    up: (recipient: string, network: string) => turns.lineUp(MINT, { recipient, network }),
    upTo: (count: number, paymentOf: (index: number) => Payment) =>
      Array.from({ length: count }, (_, index) => turns.lineUp(MINT, paymentOf(index))),
  };
}
