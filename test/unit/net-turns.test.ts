import { describe, expect, it } from 'vitest';
import { Turns } from '../../src/net/turns.ts';

const PATIENT = new AbortController().signal;

describe('turns', () => {
  it('come in order, and to each party by itself', async () => {
    const turns = new Turns(1);
    await turns.take('one', PATIENT);
    await turns.take('other', PATIENT);
    const order: string[] = [];
    const waiting = ['first', 'second'].map(async (who) => {
      await turns.take('one', PATIENT);
      order.push(who);
      turns.giveBack('one');
    });
    turns.giveBack('other');
    expect(order).toEqual([]);
    turns.giveBack('one');
    await Promise.all(waiting);
    expect(order).toEqual(['first', 'second']);
    // All of them are back.
    await turns.take('one', PATIENT);
  });

  it('pass over who has given up', async () => {
    const turns = new Turns(1);
    await turns.take('one', PATIENT);
    const impatience = new AbortController();
    const impatient = turns.take('one', impatience.signal);
    const patient = turns.take('one', PATIENT);
    impatience.abort(new Error('too long'));
    await expect(impatient).rejects.toThrow('too long');
    await expect(turns.take('one', impatience.signal)).rejects.toThrow('too long');
    turns.giveBack('one');
    await patient;
  });

  it('are not lost where somebody gives up in the moment that it is his', async () => {
    const turns = new Turns(1);
    await turns.take('one', PATIENT);
    const impatience = new AbortController();
    const late = turns.take('one', impatience.signal);
    turns.giveBack('one');
    impatience.abort();
    await late;
    turns.giveBack('one');
    await turns.take('one', PATIENT);
  });
});
