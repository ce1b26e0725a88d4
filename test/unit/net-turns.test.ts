import { describe, expect, it } from 'vitest';
import { Turns } from '../../src/net/turns.ts';

describe('Turns', () => {
  it('are given in order, by host', async () => {
    const turns = new Turns(1);
    expect(turns.take('one')).toBeNull();
    expect(turns.take('other')).toBeNull();
    const order: string[] = [];
    const waiting = ['first', 'second'].map(async (who) => {
      await turns.take('one')?.begins;
      order.push(who);
      turns.giveBack('one');
    });
    turns.giveBack('other');
    expect(order).toEqual([]);
    turns.giveBack('one');
    await Promise.all(waiting);
    expect(order).toEqual(['first', 'second']);
    expect(turns.take('one')).toBeNull();
  });

  it('skip a waiter that gave up', async () => {
    const turns = new Turns(1);
    turns.take('one');
    const impatient = turns.take('one');
    const patient = turns.take('one');
    impatient?.giveUp(new Error('too long'));
    await expect(impatient?.begins).rejects.toThrow('too long');
    turns.giveBack('one');
    await patient?.begins;
  });

  it('are not lost if a waiter gives up just as it is served', async () => {
    const turns = new Turns(1);
    turns.take('one');
    const late = turns.take('one');
    turns.giveBack('one');
    late?.giveUp(new Error('too long'));
    await late?.begins;
    expect(turns.take('one')).not.toBeNull();
    turns.giveBack('one');
    turns.giveBack('one');
    expect(turns.take('one')).toBeNull();
  });
});
