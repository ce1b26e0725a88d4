import { describe, expect, it } from 'vitest';
import { Turns } from '../../src/net/turns.ts';

describe('turns', () => {
  it('come in order, and to each party by itself', async () => {
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
    // All of them are back.
    expect(turns.take('one')).toBeNull();
  });

  it('pass over who has given up', async () => {
    const turns = new Turns(1);
    turns.take('one');
    const impatient = turns.take('one');
    const patient = turns.take('one');
    impatient?.giveUp(new Error('too long'));
    await expect(impatient?.begins).rejects.toThrow('too long');
    turns.giveBack('one');
    await patient?.begins;
  });

  it('are not lost where somebody gives up in the moment that it is his', async () => {
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
