import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  SignerError,
  waitForSigner,
} from '../../../../../../src/http/web/browser/account/signer.ts';

const pending = new Promise<never>(() => {});

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('waitForSigner', () => {
  const { signal } = new AbortController();

  it('says after two minutes that the signer did not respond', async () => {
    const response = waitForSigner('Your signer', pending, signal);
    vi.advanceTimersByTime(120_000);
    await expect(response).rejects.toThrow('Your signer did not respond within 2 minutes.');
  });

  it('ends with the reason of the abort', async () => {
    const controller = new AbortController();
    const response = waitForSigner('Your signer', pending, controller.signal);
    controller.abort(new SignerError('Cancelled.'));
    await expect(response).rejects.toThrow('Cancelled.');
    await expect(waitForSigner('Your signer', pending, controller.signal)).rejects.toThrow(
      'Cancelled.',
    );
    expect(vi.getTimerCount()).toBe(0);
  });

  it.each([
    ['an error', new Error('User rejected'), 'Your signer did not sign: User rejected'],
    ['an object', { message: 'denied' }, 'Your signer did not sign: denied'],
    ['nothing', undefined, 'Your signer did not sign.'],
  ])('shows the reason if the signer rejects with %s', async (_case, reason, message) => {
    const error = await waitForSigner('Your signer', Promise.reject(reason), signal).catch(
      (caught: unknown) => caught,
    );
    expect(error).toBeInstanceOf(SignerError);
    expect(error).toHaveProperty('message', message);
  });
});
