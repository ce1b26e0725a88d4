/** Runs one at a time for each key; whoever comes meanwhile gets the same answer. */
export async function single<T>(
  running: Map<string, Promise<T>>,
  key: string,
  start: () => Promise<T>,
): Promise<T> {
  const already = running.get(key);
  if (already !== undefined) {
    return await already;
  }
  const promise = start().finally(() => running.delete(key));
  running.set(key, promise);
  return await promise;
}
