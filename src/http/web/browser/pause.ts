/** Waits for some time. Ends early when the user returns to the page. */
export async function pause(durationMs: number): Promise<void> {
  const listening = new AbortController();
  await new Promise<void>((resolve) => {
    const onVisibilityChange = () => document.hidden || resolve();
    document.addEventListener('visibilitychange', onVisibilityChange, { signal: listening.signal });
    setTimeout(resolve, durationMs);
  });
  listening.abort();
}

export async function waitUntilVisible(): Promise<void> {
  while (document.hidden) {
    await new Promise((resolve) =>
      document.addEventListener('visibilitychange', resolve, { once: true }),
    );
  }
}
